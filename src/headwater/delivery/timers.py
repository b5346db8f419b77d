"""The deadlines of many objects, with one timer of the event loop; an object without one costs nothing."""

from __future__ import annotations

import asyncio
import heapq
import logging
from itertools import count
from typing import Protocol

from headwater.clock import Clock

logger = logging.getLogger(__name__)

MIN_WAIT_S = 0.001
AFTER_FAILURE_NS = 1_000_000_000


class Timed(Protocol):
    """An object with deadlines."""

    def tick(self, now_ns: int) -> int | None:
        """Do what is due; return the next deadline, or None until `Timers.at` is called again."""
        ...


class Timers:
    """Calls each object at its deadline, or a little later."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Timed]] = []
        """Deadline, a number that breaks ties, and whose deadline it is."""
        self._wanted: dict[int, int] = {}
        """The valid deadline of each object, by its id; other entries of the heap are outdated."""
        self._number = count()
        self._handle: asyncio.TimerHandle | None = None
        """The one timer of the event loop; None while nothing is due."""
        self._armed_ns = 0
        """The deadline for which that timer is set."""

    def at(self, due_ns: int | None, timed: Timed) -> None:
        """Have it ticked at this time; an earlier deadline of the same object stays."""
        if due_ns is None or self._wanted.get(id(timed), due_ns + 1) <= due_ns:
            return
        self._wanted[id(timed)] = due_ns
        heapq.heappush(self._heap, (due_ns, next(self._number), timed))
        self._arm()

    def forget(self, timed: Timed) -> None:
        """Remove the deadline of an object."""
        self._wanted.pop(id(timed), None)

    def close(self) -> None:
        """Stop all ticks."""
        self._heap.clear()
        self._wanted.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self) -> None:
        if not self._heap:
            return
        due_ns = self._heap[0][0]
        if self._handle is not None:
            if self._armed_ns <= due_ns:
                return
            self._handle.cancel()
        wait_s = max(MIN_WAIT_S, (due_ns - self._clock.steady_ns()) / 1e9)
        self._armed_ns = due_ns
        self._handle = asyncio.get_running_loop().call_later(wait_s, self._fire)

    def _fire(self) -> None:
        self._handle = None
        now_ns = self._clock.steady_ns()
        due = []
        while self._heap and self._heap[0][0] <= now_ns:
            due_ns, _, timed = heapq.heappop(self._heap)
            # A deadline that was removed, or replaced by an earlier one, is outdated.
            if self._wanted.get(id(timed)) == due_ns:
                del self._wanted[id(timed)]
                due.append(timed)
        for timed in due:
            try:
                self.at(timed.tick(now_ns), timed)
            except Exception:
                # A bug in one must not stop the timers of all others.
                logger.exception("%r failed at its deadline", timed)
                self.at(now_ns + AFTER_FAILURE_NS, timed)
        self._arm()
