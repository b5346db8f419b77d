"""The holders of a message: the rule, and the same rule for many holds and consumers."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.stream import Retention
from headwater.stream.retention.hold import Hold, Holder, StreamHolds, is_released

SUBJECTS = [b"a.x", b"a.y", b"b"]
FILTERS: list[tuple[str, ...]] = [(), (">",), ("a.*",), ("a.x", "b"), ("b",), ("c",)]
HELD = st.builds(
    lambda filters, start, floor: Hold(filters, start_seq=start, floor=floor),
    st.sampled_from(FILTERS),
    st.integers(1, 6),
    st.integers(0, 8),
)


@dataclass
class Consumed:
    """A consumer as the rule sees it: what it has had, and what of that it has settled."""

    next_seq: int
    unsettled: set[int]

    def needs(self, seq: int) -> bool:
        return seq >= self.next_seq or seq in self.unsettled

    def has_settled(self, seq: int) -> bool:
        return not self.needs(seq)


CONSUMED = st.builds(Consumed, st.integers(1, 8), st.sets(st.integers(1, 8)))


@given(
    retention=st.sampled_from(list(Retention)),
    held=st.lists(HELD, max_size=3),
    consumed=st.lists(CONSUMED, max_size=2),
    seq=st.integers(1, 8),
    subject=st.sampled_from(SUBJECTS),
)
def test_a_message_is_removed_when_retention_allows_it_and_it_is_not_needed(
    retention: Retention, held: list[Hold], consumed: list[Consumed], seq: int, subject: bytes
) -> None:
    holds = StreamHolds()
    for hold in held:
        holds.add(hold)
    takers: list[Holder] = [*holds.of(subject), *consumed]
    gone = is_released(retention, takers, seq)
    needed = any(taker.needs(seq) for taker in takers)
    assert not (gone and needed)
    if retention is Retention.INTEREST:
        assert gone != needed
    elif retention is Retention.WORKQUEUE:
        assert gone == (not needed and any(taker.has_settled(seq) for taker in takers))
    else:
        assert not gone
    assert holds.needs(seq, subject) == any(hold.needs(seq) for hold in holds.of(subject))
    assert holds.wants(subject) == bool(holds.of(subject))


@given(
    held=st.lists(HELD, max_size=3),
    first=st.integers(1, 8),
    length=st.integers(0, 4),
    retention=st.sampled_from([Retention.INTEREST, Retention.WORKQUEUE]),
)
def test_a_range_that_is_plainly_done_with_holds_nothing_that_anyone_needs(
    held: list[Hold], first: int, length: int, retention: Retention
) -> None:
    holds = StreamHolds()
    for hold in held:
        holds.add(hold)
    if holds.have_settled(first, first + length):
        for seq in range(first, first + length + 1):
            for subject in SUBJECTS:
                assert is_released(retention, holds.of(subject), seq)


def test_a_message_is_never_both_needed_and_settled() -> None:
    hold = Hold(start_seq=3, floor=5)
    assert [hold.needs(seq) for seq in range(1, 8)] == [False] * 5 + [True] * 2
    assert [hold.has_settled(seq) for seq in range(1, 8)] == [False, False, True, True, True, False, False]


@pytest.mark.parametrize(
    ("start", "floor", "released", "due"),
    [(1, 0, 0, None), (1, 5, 0, (1, 5)), (1, 5, 3, (4, 5)), (1, 5, 5, None), (4, 5, 0, (4, 5))],
)
def test_what_is_to_be_gone_through_lies_between_the_last_time_and_the_floor(
    start: int, floor: int, released: int, due: tuple[int, int] | None
) -> None:
    hold = Hold(start_seq=start, floor=floor)
    hold.released = released
    assert hold.next_release == due


def test_removals_that_were_taken_back_are_due_again() -> None:
    holds, hold = StreamHolds(), Hold(floor=5)
    hold.released = 5
    holds.add(hold)
    holds.rebuilt()
    assert hold.next_release == (1, 5)
    holds.discard(hold)
    assert (len(holds), list(holds), holds.wants(b"a")) == (0, [], False)
