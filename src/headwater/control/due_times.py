"""When something is due, soonest first: looking costs nothing while nothing is."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)
SLACK = 64
"""So many entries that no longer count may stand beside those that do, and as many again as those."""


class DueTimes(Generic[_T]):
    """At most one time for each item."""

    def __init__(self) -> None:
        self._due: dict[_T, int] = {}
        self._heap: list[tuple[int, int, _T]] = []
        """Each entry that is not in `_due` with the same time was replaced since."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._due)

    def set(self, item: _T, due_ns: int | None) -> None:
        """Have an item due at this time and no other; None for never."""
        if due_ns is None:
            self._due.pop(item, None)
        elif self._due.get(item) != due_ns:
            self._due[item] = due_ns
            heapq.heappush(self._heap, (due_ns, next(self._numbers), item))
        if len(self._heap) > 2 * len(self._due) + SLACK:
            self._heap = [(ns, next(self._numbers), item) for item, ns in self._due.items()]
            heapq.heapify(self._heap)

    def take_due(self, now_ns: int) -> list[_T]:
        """Return the items that are due, soonest first; none of them has a time any more."""
        found: list[_T] = []
        while self._heap and self._heap[0][0] <= now_ns:
            due_ns, _, item = heapq.heappop(self._heap)
            if self._due.get(item) == due_ns:
                del self._due[item]
                found.append(item)
        return found
