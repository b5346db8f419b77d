"""Makes groups of changes durable, one sync at a time, and sends their answers.

1. The group is taken: what is offered from now on joins the next one.
2. Its batches are appended to the log and synced, on a thread.
3. The head learns where they lie, and the answers go out.

A crash before step 2 ends: nobody was answered. After it: the messages are there on restart.
When the disk refuses, the stream goes back to what is durable and every publisher of the group is told.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from headwater.errors import DiskError, api_error
from headwater.log.segment import Position
from headwater.stream.group import Group
from headwater.stream.intake import Intake
from headwater.stream.store import Store
from headwater.wire.pub_ack import PubAcks

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 0.1
RETRY_MOST_S = 5.0

Rotated = tuple[int, dict[str, Any] | None]
"""The number of the new segment, and the ledger as it stood where the old one ended."""


class Committer:
    """The task that owns a stream's log."""

    def __init__(self, store: Store, intake: Intake, acks: PubAcks) -> None:
        self._store = store
        self._intake = intake
        self._acks = acks
        self._send = store.services.send
        self._wake = asyncio.Event()
        self._in_flight: Group | None = None
        self._rotation: tuple[asyncio.Future[Rotated], bool] | None = None
        self._closing = False
        self.failure: DiskError | None = None
        """Why nothing can be stored at the moment."""
        self.on_durable: Callable[[], None] = lambda: None
        self.task = asyncio.create_task(self._run(), name=f"commit {store.config.name}")

    @property
    def backlog_bytes(self) -> int:
        """Return how much waits to become durable."""
        waiting = self._intake.group.nbytes
        return waiting + self._in_flight.nbytes if self._in_flight else waiting

    def wake(self) -> None:
        """Have the current group made durable soon."""
        self._wake.set()

    async def settled(self) -> None:
        """Return once everything offered so far is durable; raise if it could not be made so."""
        if self._intake.group:
            self._wake.set()
            await asyncio.shield(self._intake.group.done)
        elif self._in_flight is not None:
            await asyncio.shield(self._in_flight.done)

    async def rotate(self, *, dump: bool) -> Rotated:
        """Seal the log's segment; with `dump`, also return the ledger as it stands at its end."""
        assert self._rotation is None
        rotated: asyncio.Future[Rotated] = asyncio.get_running_loop().create_future()
        self._rotation = (rotated, dump)
        self._wake.set()
        return await rotated

    async def close(self) -> None:
        """Make durable what was offered, then stop."""
        self._closing = True
        self._wake.set()
        await self.task

    async def _run(self) -> None:
        while not self._closing or self._intake.group:
            await self._wake.wait()
            self._wake.clear()
            while self._intake.group or self._rotation:
                await self._commit_next()
            if self._closing:
                self._wake.set()

    async def _commit_next(self) -> None:
        group, self._intake.group = self._intake.group, Group()
        rotation, self._rotation = self._rotation, None
        # Taken here, the ledger is exactly what the log will hold after this group.
        dumped = self._store.ledger.dump() if rotation and rotation[1] else None
        self._in_flight = group
        try:
            positions = await self._on_disk(self._write, group.encoded)
            for index, entry in group.entries:
                entry.position = positions[index]
            if rotation:
                segment = await self._on_disk(self._store.log.rotate)
        except DiskError as error:
            self._in_flight = None
            if rotation:
                rotation[0].set_exception(error)
            await self._recover(group, error)
            return
        self._in_flight = None
        self._finish(group)
        if rotation:
            rotation[0].set_result((segment, dumped))

    def _write(self, encoded: list[bytes]) -> list[Position]:
        if not encoded:
            return []
        positions = self._store.log.append(encoded)
        self._store.log.sync()
        return positions

    async def _on_disk(self, call: Callable[..., Any], *args: object) -> Any:
        if not self._store.durable:
            return call(*args)  # tmpfs: a thread would cost more than the write
        executor = self._store.services.sync_executor
        return await asyncio.get_running_loop().run_in_executor(executor, call, *args)

    def _finish(self, group: Group) -> None:
        frames = group.answers(self._acks)
        if frames:
            self._send(frames)
        if not group.done.done():
            group.done.set_result(None)
        self.on_durable()

    async def _recover(self, group: Group, error: DiskError) -> None:
        """Go back to what is durable, refusing what was not, for as long as the disk does not let us."""
        self.failure = error
        logger.error("stream %s: %s; going back to what is durable", self._store.config.name, error)
        self._refuse(group, error)
        pause_s = RETRY_FIRST_S
        while True:
            self._refuse(self._intake.group, error)
            self._intake.group = Group()
            try:
                await self._on_disk(self._store.log.rollback)
                await self._on_disk(self._store.reload)
                break
            except DiskError as again:
                self.failure = error = again
            if self._closing:
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, RETRY_MOST_S)
        self._refuse(self._intake.group, error)
        self._intake.group = Group()
        self._intake.configure()
        self.failure = None

    def _refuse(self, group: Group, error: DiskError) -> None:
        refusal = api_error("stream_store_failed", err=str(error))
        frames = group.refusals(self._acks, refusal)
        if frames:
            self._send(frames)
        if not group.done.done():
            group.done.set_exception(refusal)
            group.done.exception()  # nobody need be waiting
