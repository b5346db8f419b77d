"""Settled messages that cannot be removed before a thread has read them from their table.

A message is removed with its subject and its size, which are in its row group. If that is in a bucket and not
in memory, or cannot be read, the ack is recorded and confirmed nevertheless. The message is removed later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from pyroaring import BitMap64

from headwater.backoff import Backoff
from headwater.errors import Error
from headwater.model.run import Run
from headwater.stream.stream import Stream

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 0.25
RETRY_MOST_S = 5.0


class LateReleases:
    """The task that reads the runs of such messages; it runs only while there are some."""

    def __init__(self, stream: Stream, release: Callable[[Sequence[int]], None]) -> None:
        """Pass messages to `release` once their run is in memory; raise there if it must be tried again."""
        self._stream = stream
        self._release = release
        self._seqs = BitMap64()
        """Settled messages that may be removed once their run is read."""
        self._check: Callable[[], Awaitable[None]] | None = None
        """Looks for messages that an earlier run of the engine had settled and not removed."""
        self._task: asyncio.Task[None] | None = None
        """None while there is nothing to read."""
        self._complaint = ""
        """The error that was last logged, so that each is logged once."""

    def __len__(self) -> int:
        return len(self._seqs)

    def add(self, seqs: Sequence[int]) -> None:
        """Have these removed once they are read."""
        self._seqs.update(seqs)
        self._begin()

    def check(self, check: Callable[[], Awaitable[None]]) -> None:
        """Have this done, again and again until it succeeds."""
        self._check = check
        self._begin()

    async def close(self) -> None:
        """Return once nothing is released any more."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def _begin(self) -> None:
        if self._task is None and (self._seqs or self._check):
            self._task = asyncio.create_task(self._run(), name=f"release {self._stream.name}")

    async def _run(self) -> None:
        waits = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        try:
            while self._seqs or self._check:
                if await self._pass():
                    waits.reset()
                else:
                    await asyncio.sleep(waits.next_s())
        finally:
            self._task = None

    async def _pass(self) -> bool:
        """Go through all of them once; return whether none failed. Damage in one run keeps back no other."""
        seq, ok = 0, True
        while (seq := self._next(seq)) >= 0:
            reach = self._stream.reading.reach(seq)
            try:
                seq = await self._step(seq) + 1
            except Error as error:
                self._complain(error)
                seq, ok = max(seq, reach) + 1, False
        if ok and self._check is not None:
            try:
                await self._check()
                self._check = None
            except Error as error:
                self._complain(error)
                ok = False
        return ok

    def _next(self, seq: int) -> int:
        """Return the first of them that is not below a sequence, -1 if there is none."""
        rank = self._seqs.rank(seq - 1) if seq else 0
        return int(self._seqs[rank]) if rank < len(self._seqs) else -1

    async def _step(self, first: int) -> int:
        """Release one of them, with the others of its run; return the last sequence that was covered."""
        reading = self._stream.reading
        run = await reading.run_at(first) if reading.is_live(first) else None
        last = first if run is None else max(first, int(run.seqs[-1]))
        here = self._seqs & BitMap64(range(first, last + 1))
        if run is not None:
            self._release_from(run, list(here))
        self._seqs -= here
        await asyncio.sleep(0)
        return last

    def _release_from(self, run: Run, seqs: list[int]) -> None:
        with self._stream.reading.holding(run):
            self._release(seqs)

    def _complain(self, error: Error) -> None:
        """Log once that messages stay which are settled."""
        if str(error) != self._complaint:
            self._complaint = str(error)
            name = self._stream.name
            logger.warning("stream %s: acknowledged messages are removed later: %s", name, error)
