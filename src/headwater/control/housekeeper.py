"""Keeps streams in order while they run: expires, folds, compacts, sweeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from headwater.clock import Clock
from headwater.errors import Error
from headwater.model.stream import StreamConfig
from headwater.settings import Settings
from headwater.stream.stream import Stream

logger = logging.getLogger(__name__)

EXPIRE_TICK_S = 0.1
FOLDS_AT_ONCE = 2
"""Each takes a thread and a file of memory."""


class Housekeeper:
    """One task for expiry, one for folding, one for compaction, over all streams."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._streams: dict[str, Stream] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._under_way: set[asyncio.Future[object]] = set()
        self._turn = asyncio.Semaphore(FOLDS_AT_ONCE)

    def on_opened(self, stream: Stream) -> None:
        """Look after a stream."""
        self._streams[stream.name] = stream

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Nothing to do: each round reads the config anew."""

    def on_closed(self, stream: Stream) -> None:
        """Look after it no more."""
        self._streams.pop(stream.name, None)

    def start(self) -> None:
        """Begin the rounds."""
        fold_s = min(self._settings.fold_interval_s, 1.0) / 4
        self._tasks = [
            asyncio.create_task(self._rounds(EXPIRE_TICK_S, self._expire), name="expire"),
            asyncio.create_task(self._rounds(fold_s, self._fold), name="fold"),
            asyncio.create_task(
                self._rounds(self._settings.compact_interval_s, self._compact), name="compact"
            ),
        ]

    async def stop(self) -> None:
        """End the rounds; what is under way ends first."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, *self._under_way, return_exceptions=True)

    async def _rounds(self, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(pause_s)
            try:
                await work()
            except Exception:
                logger.exception("housekeeping failed")

    async def _expire(self) -> None:
        now_ns = self._clock.now_ns()
        for stream in list(self._streams.values()):
            due = stream.next_expiry_ns()
            if due is not None and due <= now_ns:
                await self._guarded(stream, stream.expire(now_ns))

    async def _fold(self) -> None:
        now_ns = self._clock.now_ns()
        due = [stream for stream in self._streams.values() if stream.folder.due(now_ns)]
        await asyncio.gather(*(self._in_turn(stream, stream.folder.fold) for stream in due))

    async def _compact(self) -> None:
        for stream in list(self._streams.values()):
            await self._in_turn(stream, stream.folder.tidy)

    async def _in_turn(self, stream: Stream, work: Callable[[], Awaitable[None]]) -> None:
        async with self._turn:
            if self._streams.get(stream.name) is stream:
                await self._guarded(stream, work())

    async def _guarded(self, stream: Stream, work: Awaitable[object]) -> None:
        """Await work that a stop lets end; trouble with one stream must not keep the others waiting."""
        task = asyncio.ensure_future(work)
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)
        try:
            await asyncio.shield(task)
        except Error as error:
            logger.error("stream %s: %s", stream.name, error)
        except Exception:
            logger.exception("stream %s: housekeeping failed", stream.name)
