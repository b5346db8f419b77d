"""The messages that wait at a consumer for their first delivery: how many, and which of the existing ones.

The number is updated as messages are stored, delivered and removed. It is counted again only if a removal may
have included both delivered and undelivered messages, which may mean reading.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

from headwater.delivery.feed import Slice
from headwater.delivery.tallies import SubjectTally
from headwater.stream.retention.removal import Removal
from headwater.stream.stream import Stream

_TRIES = 8
"""How often counting is repeated because messages were removed or delivered meanwhile."""


class Backlog:
    """The undelivered messages from `next_seq` on that match a consumer's filters."""

    def __init__(
        self, stream: Stream, tally: SubjectTally, next_seq: Callable[[], int], only: Sequence[int] = ()
    ) -> None:
        self._stream = stream
        self._tally = tally
        self._next_seq = next_seq
        self._only = list(only)
        """Of the messages that existed at the start, the sequences to deliver, ascending."""
        self._waiting: int | None = None
        """How many messages wait; None if it must be counted."""
        self._stored = tally.stored
        """The tally's count of stored messages when `_waiting` was last updated."""
        self._changes = 0
        """Changes with each delivery and removal, so that a count notices them."""
        self._bounded = bool(tally.filters) or bool(only)
        """Whether the number cannot be computed from the stream's own counts."""

    @property
    def is_known(self) -> bool:
        """Return whether the number is known without counting."""
        return self._waiting is not None or not self._bounded

    def __len__(self) -> int:
        """Return how many messages wait; 0 while that is unknown."""
        if not self._bounded:
            return self._stream.reading.live_between(self._next_seq(), self._stream.reading.durable_seq)
        if self._waiting is None:
            return 0
        self._waiting += self._tally.stored - self._stored
        self._stored = self._tally.stored
        return max(self._waiting, 0)

    def follow(self, tally: SubjectTally) -> None:
        """Count with other filters from now on."""
        self._tally = tally
        self._bounded = bool(tally.filters) or bool(self._only)
        self.lose_count()

    def restart(self) -> None:
        """Include everything from the next sequence on, and count it."""
        self._only.clear()
        self._bounded = bool(self._tally.filters)
        self.lose_count()

    def delivered(self, count: int) -> None:
        """Record the first delivery of messages."""
        self._changes += 1
        if self._waiting is not None:
            self._waiting -= count

    def removed(self, low: int, high: int, removal: Removal) -> None:
        """Record that the stream removed messages between two sequences."""
        self._changes += 1
        next_seq = self._next_seq()
        if high < next_seq:
            return
        if low < next_seq or removal.everything or self._only:
            self._waiting = None
        elif self._waiting is not None:
            self._waiting -= self._tally.sum(removal.subjects)

    def lose_count(self) -> None:
        """Have the waiting messages counted again when their number is next needed."""
        self._changes += 1
        self._waiting = None

    async def count(self) -> None:
        """Return once the number is known."""
        for _ in range(_TRIES):
            if self.is_known:
                return
            changes, stored = self._changes, self._tally.stored
            found = await self._counted(self._next_seq(), self._stream.reading.durable_seq)
            if self._waiting is None and changes == self._changes:
                break
        if self._waiting is None and self._bounded:
            self._waiting, self._stored = found, stored

    async def _counted(self, next_seq: int, durable_seq: int) -> int:
        chosen = 0
        if self._only and self._only[-1] >= next_seq:
            left = self._only[bisect_left(self._only, next_seq) :]
            chosen = sum(map(self._stream.reading.is_live, left))
            next_seq = left[-1] + 1
        return chosen + await self._stream.reading.pending(next_seq, self._tally.filters, durable_seq)

    def chosen(self, found: Slice) -> Sequence[int]:
        """Return which of the found rows to deliver."""
        if not self._only:
            return found.rows
        seqs = found.run.seqs
        if self._only[-1] < self._next_seq():
            self._only.clear()
            return found.rows
        wanted, last = set(self._only), self._only[-1]
        return [row for row in found.rows if (seq := int(seqs[row])) > last or seq in wanted]
