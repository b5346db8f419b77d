"""Holds: messages of a work queue or interest stream that upstreams still have to copy.

A message is held by each consumer or upstream that takes its subject and has not settled it. It is removed

- by interest: once nothing holds it;
- from a work queue: once one holder has settled it and no other holds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from headwater.model.patterns import Patterns
from headwater.model.stream import Retention


class Holder(Protocol):
    """A consumer or an upstream, which may need a message on one of its subjects."""

    def needs(self, seq: int) -> bool:
        """Return whether it has not settled the message, which must therefore stay."""
        ...

    def has_settled(self, seq: int) -> bool:
        """Return whether it got the message and has settled it."""
        ...


def is_released(retention: Retention, takers: Iterable[Holder], seq: int) -> bool:
    """Return whether a message leaves; `takers` are all whose subjects it is on."""
    if retention is Retention.LIMITS:
        return False
    settled = retention is Retention.INTEREST
    for taker in takers:
        if taker.needs(seq):
            return False
        settled = settled or taker.has_settled(seq)
    return settled


class Hold:
    """What one upstream holds of its origin: every message of its subjects above its floor.

    The floor is the sequence up to which its target has durably taken everything.
    """

    def __init__(self, filters: tuple[str, ...] = (), *, start_seq: int = 1, floor: int = 0) -> None:
        self.filters = () if ">" in filters else filters
        self._patterns = Patterns(self.filters)
        self.start_seq = start_seq
        self.floor = floor
        self.released = 0
        """Up to where the origin was gone through since the floor moved there."""

    def takes(self, subject: bytes) -> bool:
        """Return whether it wants the messages of a subject."""
        return self._patterns.takes(subject)

    def needs(self, seq: int) -> bool:
        """Return whether the message must stay for it."""
        return seq > self.floor and seq >= self.start_seq

    def has_settled(self, seq: int) -> bool:
        """Return whether its target has the message."""
        return self.start_seq <= seq <= self.floor

    @property
    def next_release(self) -> tuple[int, int] | None:
        """Return the range that has been settled and not been gone through, if there is one."""
        low = max(self.released + 1, self.start_seq)
        return (low, self.floor) if low <= self.floor else None


class StreamHolds:
    """The holds on one stream."""

    def __init__(self) -> None:
        self._holds: list[Hold] = []

    def __iter__(self) -> Iterator[Hold]:
        return iter(self._holds)

    def __len__(self) -> int:
        return len(self._holds)

    def add(self, hold: Hold) -> None:
        """Keep what this hold needs."""
        self._holds.append(hold)

    def discard(self, hold: Hold) -> None:
        """Keep nothing for this hold from now on."""
        if hold in self._holds:
            self._holds.remove(hold)

    def wants(self, subject: bytes) -> bool:
        """Return whether any of them takes a subject."""
        return any(hold.takes(subject) for hold in self._holds)

    def needs(self, seq: int, subject: bytes) -> bool:
        """Return whether any of them needs a message."""
        return any(hold.needs(seq) and hold.takes(subject) for hold in self._holds)

    def of(self, subject: bytes) -> list[Hold]:
        """Return those that take a subject."""
        return [hold for hold in self._holds if hold.takes(subject)]

    def have_settled(self, first_seq: int, last_seq: int) -> bool:
        """Return whether there are some, and each has settled everything in a range, whatever its subject."""
        return bool(self._holds) and all(
            not hold.filters and hold.start_seq <= first_seq and hold.floor >= last_seq
            for hold in self._holds
        )

    def rebuilt(self) -> None:
        """Have everything gone through again: removals may have been taken back."""
        for hold in self._holds:
            hold.released = 0
