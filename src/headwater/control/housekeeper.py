"""Maintains streams while they run: expires, folds, compacts, sweeps."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from headwater.clock import Clock
from headwater.control.due_times import DueTimes
from headwater.control.repeated_failures import RepeatedFailures
from headwater.errors import Error
from headwater.model.stream import StreamConfig
from headwater.settings import Settings
from headwater.stream.stream import Stream

logger = logging.getLogger(__name__)

EXPIRE_TICK_S = 0.1
FOLDS_AT_ONCE = 2
"""How many folds run at once; each takes a thread and memory for a file."""
LONGEST_TURN_S = 30.0
"""Work that takes longer gives up its turn but continues, so that a stuck stream delays no other."""

STOP_WITHIN_S = 30.0
"""How long a stop waits for work that hangs."""

Work = Callable[[], Awaitable[object]]


class Housekeeper:
    """One task each for expiry, folding and compaction, over the streams that may need it.

    No stream waits for another: work in progress is not started again, and the round continues without it. An
    idle stream costs nothing: it is checked when it changes, or when something in it is due.
    """

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._streams: dict[str, Stream] = {}
        """The open streams by name."""
        self._tasks: list[asyncio.Task[None]] = []
        """The loops of expiry, folding and compaction."""
        self._in_progress: dict[tuple[str, Stream], asyncio.Task[None]] = {}
        """Work in progress, by kind and stream."""
        self._waiting: dict[Stream, asyncio.Task[None]] = {}
        """The streams that wait for their turn to be folded."""
        self._turns = asyncio.Semaphore(FOLDS_AT_ONCE)
        """Bounds how many streams are folded at the same time."""
        self._failures = RepeatedFailures()
        """Logs each failure of a stream's maintenance once."""
        self._expiries: DueTimes[Stream] = DueTimes()
        """When something in a stream expires next."""
        self._changed: dict[Stream, None] = {}
        """The streams whose due times may have changed."""
        self._unfolded: dict[Stream, None] = {}
        """The streams that may have something to fold."""
        self._untidy: dict[Stream, None] = {}
        """The streams whose tables may have files to merge, rewrite or unlink."""

    def on_opened(self, stream: Stream) -> None:
        """Maintain a stream."""
        self._streams[stream.name] = stream
        stream.events.change_callbacks.add(partial(self._touch, stream))
        self._changed[stream] = self._unfolded[stream] = None
        if stream.folder.needs_tidying():
            self._untidy[stream] = None

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Check the stream again: its limits may have changed."""
        self._touch(stream)

    def on_closed(self, stream: Stream) -> None:
        """Stop maintaining a stream."""
        self._streams.pop(stream.name, None)
        self._expiries.set(stream, None)
        for work in ("expire", "fold", "compact"):
            self._failures.forget((work, stream))
        for known in (self._changed, self._unfolded, self._untidy):
            known.pop(stream, None)

    def _touch(self, stream: Stream) -> None:
        """Check a stream in the next rounds: something was stored, removed or recorded."""
        if self._streams.get(stream.name) is stream:
            self._changed[stream] = self._unfolded[stream] = self._untidy[stream] = None

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
        """End the rounds; work in progress ends first, unless it hangs."""
        waiting = (*self._tasks, *self._waiting.values())
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        if self._in_progress:
            await asyncio.wait(self._in_progress.values(), timeout=STOP_WITHIN_S)
        for work, stream in self._in_progress:
            logger.error("stream %s: %s has not ended", stream.name, work)

    async def _rounds(self, pause_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(pause_s)
            try:
                await work()
            except Exception:
                logger.exception("housekeeping failed")

    async def _expire(self) -> None:
        now_ns = self._clock.now_ns()
        changed, self._changed = self._changed, {}
        for stream in changed:
            self._expiries.set(stream, stream.retention.next_expiry_ns())
        for stream in self._expiries.take_due(now_ns):
            task = self._begin("expire", stream, partial(stream.retention.expire, now_ns))
            # The next due time is known only then. After a failure it is still due.
            task.add_done_callback(partial(self._has_expired, stream))

    def _has_expired(self, stream: Stream, task: asyncio.Task[None]) -> None:
        if self._streams.get(stream.name) is stream:
            self._changed[stream] = None

    async def _fold(self) -> None:
        now_ns = self._clock.now_ns()
        for stream in list(self._unfolded):
            if stream in self._waiting:
                continue
            if not stream.folder.due(now_ns):
                if stream.folder.has_nothing_to_fold:
                    del self._unfolded[stream]
            else:
                task = asyncio.create_task(self._in_turn("fold", stream, stream.folder.fold))
                self._waiting[stream] = task
                task.add_done_callback(partial(self._had_turn, stream))

    def _had_turn(self, stream: Stream, task: asyncio.Task[None]) -> None:
        del self._waiting[stream]
        self._touch(stream)

    async def _compact(self) -> None:
        """Compact one stream after the other, so that folds seldom wait for their turn."""
        untidy, self._untidy = self._untidy, {}
        for stream in untidy:
            await self._in_turn("compact", stream, stream.folder.tidy)
            if not stream.folder.is_tidy and self._streams.get(stream.name) is stream:
                self._untidy[stream] = None

    async def _in_turn(self, work: str, stream: Stream, call: Work) -> None:
        """Start work when its turn comes; return when it has ended or its turn is over."""
        if (work, stream) in self._in_progress:
            return
        async with self._turns:
            if self._streams.get(stream.name) is stream:
                await asyncio.wait({self._begin(work, stream, call)}, timeout=LONGEST_TURN_S)

    def _begin(self, work: str, stream: Stream, call: Work) -> asyncio.Task[None]:
        """Return the task of work for a stream, started unless it is in progress already."""
        key = (work, stream)
        if key not in self._in_progress:
            self._in_progress[key] = asyncio.create_task(self._guarded(work, stream, call))
            self._in_progress[key].add_done_callback(lambda _: self._in_progress.pop(key))
        return self._in_progress[key]

    async def _guarded(self, work: str, stream: Stream, call: Work) -> None:
        """Run work; a failure is logged, once while it stays the same."""
        who = f"stream {stream.name}"
        try:
            await call()
            self._failures.ended((work, stream), who)
        except Error as error:
            self._failures.failed((work, stream), who, str(error), self._clock.now_ns())
        except Exception:
            logger.exception("stream %s: housekeeping failed", stream.name)
