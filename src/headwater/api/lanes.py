"""Requests run as tasks, a few at a time for each stream, and refused when too many wait."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine

logger = logging.getLogger(__name__)
Work = Callable[[], Coroutine[None, None, None]]


class _Lane:
    """The requests about one stream that wait, and how many run."""

    __slots__ = ("running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[Work] = deque()
        self.running = 0


class Lanes:
    """Runs work in named lanes: up to `width` at a time in each, `depth` waiting, `total` in all.

    Whoever submits work answers for its errors; one that it lets through is logged, and the lane goes on.
    """

    def __init__(self, *, width: int, depth: int, total: int) -> None:
        self._width = width
        self._depth = depth
        self._total = total
        self._lanes: dict[str, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._load = 0

    @property
    def load(self) -> int:
        """Return how much work runs or waits."""
        return self._load

    def submit(self, name: str, work: Work) -> bool:
        """Run the work when its turn comes; False, and nothing will happen, if too much waits already."""
        lane = self._lanes.get(name) or _Lane()
        if self._load >= self._total or len(lane.waiting) >= self._depth:
            return False
        self._lanes[name] = lane
        self._load += 1
        if lane.running == self._width:
            lane.waiting.append(work)
            return True
        lane.running += 1
        task = asyncio.create_task(self._run(name, lane, work), name=f"api {name}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def _run(self, name: str, lane: _Lane, work: Work | None) -> None:
        try:
            while work is not None:
                try:
                    await work()
                except Exception:
                    logger.exception("work in lane %r failed", name)
                finally:
                    self._load -= 1
                work = lane.waiting.popleft() if lane.waiting else None
        finally:
            lane.running -= 1
            if not lane.running and not lane.waiting:
                self._lanes.pop(name, None)

    async def drain(self) -> None:
        """Return once nothing runs or waits any more."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))
