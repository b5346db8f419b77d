"""An offset knows its stream: what is gone before it was read is an error, or is left out by choice."""

from __future__ import annotations

import pytest

from headwater.spark.offset import DataLossError, FollowOffset, StreamExtent, batch_bounds, next_seq

OLD, NEW = "2026-11-16T08:00:00Z", "2026-11-16T09:00:00Z"


def extent(first: int, last: int, created: str = OLD) -> StreamExtent:
    """Return the extent of a stream."""
    return StreamExtent(created, first, last, 1.0)


def test_an_offset_is_what_spark_keeps() -> None:
    assert FollowOffset.of({"seq": 5}) == FollowOffset(5)
    assert FollowOffset.of(FollowOffset(5, OLD).value()) == FollowOffset(5, OLD)


def test_an_extent_is_read_from_a_streams_info() -> None:
    state = {"first_seq": 3, "last_seq": 7, "messages": 4, "bytes": 400}
    assert StreamExtent.of({"created": OLD, "state": state}) == StreamExtent(OLD, 3, 7, 100.0)
    assert StreamExtent.of({"created": OLD, "state": {"first_seq": 0, "last_seq": 0}}).first_seq == 1


def test_reading_goes_on_after_the_last_sequence() -> None:
    assert next_seq(FollowOffset(5, OLD), extent(1, 9), "S", may_skip=False) == 6
    assert next_seq(FollowOffset(5), extent(6, 9), "S", may_skip=False) == 6
    assert next_seq(FollowOffset(50, OLD), extent(1, 9), "S", may_skip=False) == 51


@pytest.mark.parametrize(
    ("start", "now", "words", "then"),
    [
        (FollowOffset(5, OLD), extent(1, 9, NEW), "deleted and re-created after message 5", 1),
        (FollowOffset(5, OLD), extent(1, 3, NEW), "deleted and re-created after message 5", 1),
        (FollowOffset(5), extent(1, 3), "deleted and re-created after message 5", 1),
        (FollowOffset(5, OLD), extent(8, 9), "no longer has messages 6 to 7", 8),
        (FollowOffset(5, OLD), extent(10, 9), "no longer has messages 6 to 9", 10),
    ],
)
def test_unread_messages_that_are_gone_are_an_error_or_left_out(
    start: FollowOffset, now: StreamExtent, words: str, then: int
) -> None:
    with pytest.raises(DataLossError, match=f"stream 'S' .*{words}.*failOnDataLoss"):
        next_seq(start, now, "S", may_skip=False)
    assert next_seq(start, now, "S", may_skip=True) == then


def test_a_replayed_batch_has_the_same_bounds_or_fails() -> None:
    start, end = FollowOffset(5, OLD), FollowOffset(9, OLD)
    assert batch_bounds(start, end, extent(1, 50), "S", may_skip=False) == (6, 9)
    assert batch_bounds(FollowOffset(5), end, extent(6, 50), "S", may_skip=False) == (6, 9)
    assert batch_bounds(end, end, extent(30, 50), "S", may_skip=False) == (10, 9)
    for now, words in ((extent(8, 50), "no longer has messages 6 to 7"), (extent(1, 50, NEW), "re-created")):
        with pytest.raises(DataLossError, match=words):
            batch_bounds(start, end, now, "S", may_skip=False)
    assert batch_bounds(start, end, extent(8, 50), "S", may_skip=True) == (6, 9)
    assert batch_bounds(start, end, extent(1, 50, NEW), "S", may_skip=True) == (1, 0)


def test_a_batch_after_a_skip_begins_with_the_new_stream() -> None:
    start, end = FollowOffset(90, OLD), FollowOffset(4, NEW)
    assert batch_bounds(start, end, extent(1, 50, NEW), "S", may_skip=True) == (1, 4)
    assert batch_bounds(FollowOffset(90), end, extent(1, 50, NEW), "S", may_skip=True) == (1, 4)
