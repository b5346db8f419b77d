"""Messages are decoded from bytes as they were encoded."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from headwater.stream.publishing.offered import OfferedRun
from headwater.wire import column_bytes

messages = st.lists(
    st.tuples(st.binary(min_size=1, max_size=9), st.binary(max_size=9), st.binary(max_size=50))
)


@given(messages, st.integers(1, 2**62))
def test_columns_come_back_from_their_bytes(items: list[tuple[bytes, bytes, bytes]], first: int) -> None:
    seqs = range(first, first + len(items))
    run = OfferedRun(seqs, seqs, *([item[at] for item in items] for at in range(3)))
    again = OfferedRun.of(column_bytes.decode(column_bytes.encode(run.columns())))
    assert [again.message(row) for row in range(len(again))] == [run.message(row) for row in range(len(run))]


def test_empty_columns_hold_nothing_and_come_back() -> None:
    empty = column_bytes.empty()
    assert len(empty) == 0
    assert len(column_bytes.decode(column_bytes.encode(empty))) == 0
    assert empty.seqs.dtype == np.int64
