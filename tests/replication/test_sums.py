"""Sums over parts are those over the whole."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.replication.sums import Sums
from headwater.table.parquet import write
from table.samples import columns, message


@given(st.sets(st.integers(0, 60), min_size=1), st.integers(1, 10))
def test_sums_of_parts_tell_what_the_messages_are(offsets: set[int], step: int) -> None:
    ordered = sorted(offsets)
    sums = Sums()
    for start in range(0, len(ordered), step):
        sums.add(columns(ordered[start : start + step]))
    messages = [message(offset) for offset in ordered]
    with TemporaryDirectory() as directory:
        stats = write(Path(directory) / "file.parquet", columns(ordered), 0)
    found = sums.adopted("name", stats)
    assert (found.rows, found.first_offset, found.last_offset) == (len(ordered), ordered[0], ordered[-1])
    assert (found.first_ts, found.last_ts) == (messages[0].ts, messages[-1].ts)
    assert found.payload_bytes == sum(len(m.subject) + len(m.headers) + len(m.data) for m in messages)
    assert found.with_headers == sum(bool(m.headers) for m in messages)
    counts = Counter(m.subject for m in messages)
    assert {s: n for s, (n, _) in found.subjects.items()} == counts
    assert all(
        max(m.seq for m in messages if m.subject == s) == last for s, (_, last) in found.subjects.items()
    )
    gaps = BitMap64.deserialize(found.gaps) if found.gaps else BitMap64()
    assert set(gaps) == set(range(ordered[0], ordered[-1] + 1)) - offsets
