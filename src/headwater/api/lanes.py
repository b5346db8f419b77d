"""Requests run as tasks, a few at a time per stream; refused if too many wait or none makes progress."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine

from headwater.background_tasks import BackgroundTasks

logger = logging.getLogger(__name__)
Work = Callable[[], Coroutine[None, None, None]]
Refuse = Callable[[], None]

STUCK_S = 10.0
"""How long work may wait for its turn; clients wait about half as long for an answer."""


class _Lane:
    """The waiting requests of one stream, and how many run."""

    __slots__ = ("moved_at", "running", "waiting")

    def __init__(self) -> None:
        self.waiting: deque[tuple[Work, Refuse]] = deque()
        """What to run, and what to call if it is refused instead."""
        self.running = 0
        self.moved_at = 0.0
        """When work last began."""


class Lanes:
    """Runs work in named lanes: up to `width` at a time in each, `depth` waiting, `total` in all.

    A lane in which no work has begun for a while is stuck, as its stream is. What waits in it is refused, so
    that it takes no capacity from others. Work must handle its own errors. One that escapes is logged, and
    the lane continues.
    """

    def __init__(self, *, width: int, depth: int, total: int, stuck_s: float = STUCK_S) -> None:
        self._width = width
        self._depth = depth
        self._total = total
        self._stuck_s = stuck_s
        self._lanes: dict[str, _Lane] = {}
        """By name; a lane exists only while it has work."""
        self._tasks = BackgroundTasks()
        self._load = 0
        """How many calls run or wait in all lanes."""

    @property
    def load(self) -> int:
        """Return how much work runs or waits."""
        return self._load

    def submit(self, name: str, work: Work, refuse: Refuse = lambda: None) -> bool:
        """Run the work when its turn comes, or refuse it; return whether it may still run."""
        lane = self._lanes.get(name) or _Lane()
        if self._load >= self._total or len(lane.waiting) >= self._depth or self._is_stuck(lane):
            refuse()
            return False
        self._lanes[name] = lane
        self._load += 1
        if lane.running == self._width:
            if not lane.waiting:
                self._watch(lane)
            lane.waiting.append((work, refuse))
            return True
        lane.running += 1
        lane.moved_at = asyncio.get_running_loop().time()
        self._tasks.start(self._run(name, lane, work), f"api {name}")
        return True

    def _is_stuck(self, lane: _Lane) -> bool:
        still_s = asyncio.get_running_loop().time() - lane.moved_at
        return lane.running == self._width and still_s >= self._stuck_s

    def _watch(self, lane: _Lane) -> None:
        """Check a lane with waiting work at the time when it may be stuck, and refuse the work if it is."""
        asyncio.get_running_loop().call_later(self._stuck_s, self._look, lane)

    def _look(self, lane: _Lane) -> None:
        if lane.waiting and not self._is_stuck(lane):
            self._watch(lane)
            return
        while lane.waiting:
            self._load -= 1
            lane.waiting.popleft()[1]()

    async def _run(self, name: str, lane: _Lane, work: Work | None) -> None:
        loop = asyncio.get_running_loop()
        try:
            while work is not None:
                lane.moved_at = loop.time()
                try:
                    await work()
                except Exception:
                    logger.exception("work in lane %r failed", name)
                finally:
                    self._load -= 1
                work = lane.waiting.popleft()[0] if lane.waiting else None
        finally:
            lane.running -= 1
            if not lane.running and not lane.waiting:
                self._lanes.pop(name, None)

    async def drain(self) -> None:
        """Return once nothing runs or waits any more, except for stuck work."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._stuck_s
        while self._tasks and (left_s := deadline - loop.time()) > 0:
            await self._tasks.ended(left_s)
        for task in self._tasks:
            logger.error("%s has not ended", task.get_name())
            task.cancel()
