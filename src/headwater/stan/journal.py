"""Writes records in groups, in order, and tells whoever waits once theirs are durable."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence

from headwater.errors import DiskError, FencedError
from headwater.stan.records import Op, Records

logger = logging.getLogger(__name__)

RETRY_S = 0.5
Then = Callable[[], None]


class Journal:
    """The task that owns the records' file: one write at a time, all that waits in it."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._ops: list[Op] = []
        self._thens: list[Then] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._run(), name="stan journal")

    def put(self, ops: Sequence[Op], then: Then | None = None) -> None:
        """Have changes made durable, and then something done, after all that was asked for before."""
        self._ops += ops
        if then is not None:
            self._thens.append(then)
        self._wake.set()

    async def settled(self) -> None:
        """Return once all that was put is durable."""
        done = asyncio.get_running_loop().create_future()
        self.put([], lambda: None if done.done() else done.set_result(None))
        await done

    async def close(self) -> None:
        """Write what waits, then stop."""
        self._closing = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while not self._closing or self._ops or self._thens:
            await self._wake.wait()
            self._wake.clear()
            ops, self._ops = self._ops, []
            thens, self._thens = self._thens, []
            if ops and not await self._written(ops):
                return
            for then in thens:
                then()
            if self._closing:
                self._wake.set()

    async def _written(self, ops: list[Op]) -> bool:
        """Return once the changes are durable, however often that takes; False if we are to stop before."""
        while True:
            try:
                await asyncio.to_thread(self._records.write, ops)
                return True
            except FencedError as error:
                # Another engine keeps the state now; whoever waits for ours waits in vain, as it must.
                logger.error("cannot keep the state of NATS Streaming: %s", error)
                return False
            except (sqlite3.Error, DiskError):
                logger.exception("cannot keep the state of NATS Streaming; trying again")
            if self._closing:
                return False
            await asyncio.sleep(RETRY_S)
