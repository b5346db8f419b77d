"""Due times, soonest first: checking costs nothing while nothing is due."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from itertools import count
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)
SLACK = 64
"""How many outdated entries may be in the heap besides as many as there are valid ones."""


class DueTimes(Generic[_T]):
    """At most one time for each item."""

    def __init__(self) -> None:
        self._due: dict[_T, int] = {}
        """The valid time of each item."""
        self._heap: list[tuple[int, int, _T]] = []
        """An entry whose time differs from the one in `_due` is outdated."""
        self._numbers = count()
        """Breaks ties, so that items are never compared."""

    def __len__(self) -> int:
        return len(self._due)

    def set(self, item: _T, due_ns: int | None) -> None:
        """Set the only due time of an item; None for never."""
        if due_ns is None:
            self._due.pop(item, None)
        elif self._due.get(item) != due_ns:
            self._due[item] = due_ns
            heapq.heappush(self._heap, (due_ns, next(self._numbers), item))
        if len(self._heap) > 2 * len(self._due) + SLACK:
            self._heap = [(ns, next(self._numbers), item) for item, ns in self._due.items()]
            heapq.heapify(self._heap)

    def take_due(self, now_ns: int) -> list[_T]:
        """Return the due items, soonest first, and remove their times."""
        found: list[_T] = []
        while self._heap and self._heap[0][0] <= now_ns:
            due_ns, _, item = heapq.heappop(self._heap)
            if self._due.get(item) == due_ns:
                del self._due[item]
                found.append(item)
        return found
