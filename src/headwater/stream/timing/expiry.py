"""When messages with a time to live of their own leave the stream."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import Any

from pyroaring import BitMap64

PRUNE_LEAST = 4096


class ExpiryIndex:
    """The messages that carry their own time to live, soonest first, and those that never expire."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        """When each expires, and its sequence; removed messages stay until `prune`."""
        self._prune_at = PRUNE_LEAST
        """At which length of the heap removed messages are dropped from it."""
        self._taken: dict[int, int] = {}
        """The sequences that a round is removing, with their times: a checkpoint must keep them."""
        self.never = BitMap64()
        """Messages that even `max_age` does not remove."""

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, seq: int, expires_ns: int) -> None:
        """Have this sequence leave at this time."""
        heapq.heappush(self._heap, (expires_ns, seq))

    def prune(self, is_live: Callable[[int], bool]) -> None:
        """Forget messages removed otherwise, once they may be half of all: O(1) for each one added."""
        if len(self._heap) < self._prune_at:
            return
        self._heap = [entry for entry in self._heap if is_live(entry[1])]
        heapq.heapify(self._heap)
        self._prune_at = max(PRUNE_LEAST, 2 * len(self._heap))

    def next_ns(self) -> int | None:
        """Return when the soonest one is due."""
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int, limit: int) -> list[int]:
        """Pop at most `limit` sequences that are due; some may be removed from the stream already.

        Call `end_round` with those that could not be removed.
        """
        due: list[int] = []
        while self._heap and self._heap[0][0] <= now_ns and len(due) < limit:
            expires_ns, seq = heapq.heappop(self._heap)
            due.append(seq)
            self._taken[seq] = expires_ns
        return due

    def end_round(self, left: Iterable[int]) -> None:
        """Have these sequences be due again, of those that were popped."""
        taken, self._taken = self._taken, {}
        for seq in left:
            if seq in taken:
                self.add(seq, taken[seq])

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self._taken.clear()
        self.never.clear()

    def dump(self) -> dict[str, Any]:
        """Return what a checkpoint must keep."""
        taken = [(expires_ns, seq) for seq, expires_ns in self._taken.items()]
        return {"heap": self._heap + taken, "never": self.never.serialize()}

    def restore(self, dumped: dict[str, Any]) -> None:
        """Take back what `dump` returned."""
        self._heap = [(expires_ns, seq) for expires_ns, seq in dumped["heap"]]
        heapq.heapify(self._heap)
        self.never = BitMap64.deserialize(dumped["never"])
