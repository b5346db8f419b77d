"""A target gets the sums of a file, moved to the file's place in the target."""

from __future__ import annotations

from pathlib import Path

from headwater.table.adopted_sums import adopted_of
from headwater.table.parquet import write
from table.samples import columns, message


def test_a_file_is_named_with_all_that_its_sums_say(tmp_path: Path) -> None:
    seqs = [3, 4, 9]
    stats = write(tmp_path / "file", columns(seqs), 0)
    assert stats.sums is not None
    found = adopted_of("name", stats.content.size_bytes, stats.sums, 100)
    assert (found.name, found.rows, found.first_seq, found.last_seq) == ("name", 3, 103, 109)
    assert (found.size_bytes, found.with_headers) == (stats.content.size_bytes, 2)
    assert found.subjects == {b"orders.%d" % (seq % 7): (1, seq) for seq in seqs}
    assert (found.first_subject, found.last_subject) == (
        stats.content.first_subject,
        stats.content.last_subject,
    )
    assert (found.first_ts, found.last_ts) == (message(3).ts, message(9).ts)
    assert found.gaps == stats.sums.gaps != b""
