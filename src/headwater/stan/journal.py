"""Writes records in groups, in order, and runs callbacks once they are durable."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence

from headwater.control.summed_tables import Op
from headwater.errors import DiskError, FencedError
from headwater.stan.records import Records
from headwater.threads import on_thread

logger = logging.getLogger(__name__)

RETRY_S = 0.5
Then = Callable[[], None]


class Journal:
    """The task that writes the records file: one write at a time, with all waiting changes."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._ops: list[Op] = []
        """Changes that wait to be written."""
        self._thens: list[Then] = []
        """Called in order once the changes before them are durable."""
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._run(), name="stan journal")

    def put(self, ops: Sequence[Op], then: Then | None = None) -> None:
        """Queue changes, and a callback to run once they are durable, in order."""
        self._ops += ops
        if then is not None:
            self._thens.append(then)
        self._wake.set()

    async def settled(self) -> None:
        """Return once all queued changes are durable."""
        done = asyncio.get_running_loop().create_future()
        self.put([], lambda: None if done.done() else done.set_result(None))
        await done

    async def close(self) -> None:
        """Write the queued changes, then stop."""
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
                _call(then)
            if self._closing:
                self._wake.set()

    async def _written(self, ops: list[Op]) -> bool:
        """Retry until the changes are durable; return False if stopped before."""
        while True:
            try:
                await on_thread(self._records.write, ops)
                return True
            except FencedError as error:
                # Another engine owns the state now. Callbacks of this one must never run.
                logger.error("cannot write the state of NATS Streaming: %s", error)
                return False
            except (sqlite3.Error, DiskError) as error:
                logger.error("cannot write the state of NATS Streaming: %s; retrying", error)
            if self._closing:
                return False
            await asyncio.sleep(RETRY_S)


def _call(then: Then) -> None:
    """Run a callback; its error must not keep the changes of other clients from being written."""
    try:
        then()
    except Exception:
        logger.exception("a client of NATS Streaming could not be answered")
