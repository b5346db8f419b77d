"""The task that puts adopted files into a stream's table once the log names them."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from headwater.backoff import Backoff
from headwater.errors import Error
from headwater.stream.events import StreamEvents
from headwater.stream.store import Store

logger = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0


class Adopter:
    """Commits files to the table in the order of their sequences, by one task at a time."""

    def __init__(self, store: Store, events: StreamEvents) -> None:
        self._store = store
        self._events = events
        self._task: asyncio.Task[None] | None = None
        """Commits the files that wait; None or done if there is none."""
        self._closing = asyncio.Event()

    def start(self) -> None:
        """Begin to commit the files that the log names durably, unless the task already runs."""
        named = self._store.adoptions.through(self._store.synced_seq)
        if named and (self._task is None or self._task.done()) and not self._closing.is_set():
            self._task = asyncio.create_task(self._run(), name=f"adopt {self._store.config.name}")

    async def finished(self, last_seq: int) -> None:
        """Return once the table holds the files up to a sequence."""
        self.start()
        ended = asyncio.ensure_future(self._store.adoptions.ended(last_seq))
        tasks = {ended, self._task} if self._task else {ended}
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self._task is not None and self._task.done() and not ended.done():
                self._task.result()
            await ended
        finally:
            ended.cancel()

    async def close(self) -> None:
        """Stop the task; the next open commits the files that still wait."""
        self._closing.set()
        self._store.adoptions.close()
        if self._task is not None:
            await asyncio.wait({self._task})

    async def _run(self) -> None:
        """Commit files until none waits. Retry failures: the log has made the files part of the stream."""
        adoptions, waits = self._store.adoptions, Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while (files := adoptions.through(self._store.synced_seq)) and not self._closing.is_set():
            try:
                await self._store.change_table(self._store.finish_adoptions, files[-1].last_seq)
            except Exception as error:  # any error: without this task the end of the stream stays unreadable
                is_known = isinstance(error, Error | OSError)
                logger.error(
                    "stream %s: %s; trying again", self._store.config.name, error, exc_info=not is_known
                )
                with suppress(TimeoutError):
                    async with asyncio.timeout(waits.next_s()):
                        await self._closing.wait()
                continue
            adoptions.done(files[-1].last_seq)
            waits.reset()
            for file in files:
                self._events.adopted(file)
