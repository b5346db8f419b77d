"""When delivered messages become due again: runs of sequences by time, so that a batch costs one entry."""

from __future__ import annotations

from heapq import heappop, heappush

_TOGETHER_NS = 10_000_000
"""Runs that become due this close together are one entry; messages not yet due then are put back."""


class Deadlines:
    """Runs of sequences, each with the earliest time at which one of them may be due.

    An entry is a hint: the caller checks each message's own deadline. Settled messages leave their entries
    behind, which are skipped.
    """

    __slots__ = ("_heap", "_latest")

    def __init__(self) -> None:
        self._heap: list[list[int]] = []
        """Earliest deadline, first and last sequence of each run, soonest first."""
        self._latest: list[int] | None = None
        """The entry of the heap that was added last; later ones close to it join it."""

    def add(self, deadline: int, first: int, last: int) -> None:
        """Record that messages from `first` to `last` may be due at the deadline and not before."""
        latest = self._latest
        if latest is not None and 0 <= deadline - latest[0] < _TOGETHER_NS:
            latest[1] = min(latest[1], first)
            latest[2] = max(latest[2], last)
            return
        self._latest = [deadline, first, last]
        heappush(self._heap, self._latest)

    def next(self, lowest: int) -> int | None:
        """Return the earliest deadline, or None; runs below the lowest unsettled sequence are dropped."""
        heap = self._heap
        while heap:
            if heap[0][2] >= lowest:
                return heap[0][0]
            self._pop()
        return None

    def take(self, now: int, lowest: int) -> list[tuple[int, int]]:
        """Return and remove the runs that may be due by now, as first and last sequence."""
        runs = []
        while self._heap and self._heap[0][0] <= now:
            _, first, last = self._pop()
            if last >= lowest:
                runs.append((max(first, lowest), last))
        return runs

    def clear(self) -> None:
        """Remove everything."""
        self._heap.clear()
        self._latest = None

    def _pop(self) -> list[int]:
        entry = heappop(self._heap)
        if entry is self._latest:
            self._latest = None
        return entry
