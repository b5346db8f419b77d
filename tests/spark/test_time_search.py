"""A time is found among sequences with gaps, by few questions."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.spark.time_search import FoundMessage, first_at


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3)), max_size=40), st.integers(0, 130))
def test_the_first_message_that_is_not_earlier_is_found(steps: list[tuple[int, int]], ts: int) -> None:
    live: list[FoundMessage] = []
    seq = now = 0
    for gap, passed in steps:
        seq, now = seq + gap, now + passed
        live.append((seq, now))
    asked = 0

    def message_at(wanted: int) -> FoundMessage | None:
        nonlocal asked
        asked += 1
        return next((each for each in live if each[0] >= wanted), None)

    found = first_at(ts, 1, seq, message_at)
    later = [each for each in live if each[0] >= found]
    assert later == [each for each in live if each[1] >= ts]
    assert asked <= max(seq, 1).bit_length() + 1
