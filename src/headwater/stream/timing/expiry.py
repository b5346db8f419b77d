"""When messages with a time to live of their own leave the stream."""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

from pyroaring import BitMap64

PRUNE_LEAST = 4096


class ExpiryIndex:
    """The messages that carry their own time to live, soonest first, and those that never expire."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._prune_at = PRUNE_LEAST
        self.never = BitMap64()

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
        """Pop at most `limit` sequences that are due; some may be removed from the stream already."""
        due: list[int] = []
        while self._heap and self._heap[0][0] <= now_ns and len(due) < limit:
            due.append(heapq.heappop(self._heap)[1])
        return due

    def clear(self) -> None:
        """Forget everything."""
        self._heap.clear()
        self.never.clear()

    def dump(self) -> dict[str, Any]:
        """Return what a checkpoint must keep."""
        return {"heap": list(self._heap), "never": self.never.serialize()}

    def restore(self, dumped: dict[str, Any]) -> None:
        """Take back what `dump` returned."""
        self._heap = [(expires_ns, seq) for expires_ns, seq in dumped["heap"]]
        heapq.heapify(self._heap)
        self.never = BitMap64.deserialize(dumped["never"])
