"""Makes groups of changes durable, one sync at a time, and sends their answers.

1. Take the group. What is offered from now on joins the next one.
2. Append its batches to the log and sync, on a thread.
3. Record their positions in the head and send the answers.

A crash before step 2 ends: no publisher was answered. After it: the messages are there on restart.
When the disk refuses a write, the stream rolls back to what is durable and every publisher of the group gets
an error. When another engine took over the store (fencing), the stream ends and acknowledges nothing more.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any

from headwater.backoff import Backoff
from headwater.errors import ApiError, DiskError, Error, FencedError, api_error
from headwater.log.segment import Position
from headwater.stream.events import StreamEvents
from headwater.stream.group import Group
from headwater.stream.ledger import merge_known
from headwater.stream.publishing.acceptor import Acceptor
from headwater.stream.replica.adopter import Adopter
from headwater.stream.store import Store
from headwater.wire.pub_ack import PubAcks

logger = logging.getLogger(__name__)

RETRY_FIRST_S = 0.1
RETRY_MOST_S = 5.0

Rotated = tuple[int, dict[str, Any] | None]
"""The number of the new segment, and the ledger as it stood where the old one ended."""


class Committer:
    """The task that owns a stream's log."""

    def __init__(
        self, store: Store, acceptor: Acceptor, adopter: Adopter, events: StreamEvents, acks: PubAcks
    ) -> None:
        self._store = store
        self._acceptor = acceptor
        self._sequencer = acceptor.sequencer
        self._adopter = adopter
        self._events = events
        self._acks = acks
        self._send = store.services.send
        """Writes frames to the bus; called only after the sync they depend on."""
        self._meters = store.services.meters
        self._offered_s = 0.0
        """When the group that is being filled got its first change; 0 while it is empty."""
        self._wake = asyncio.Event()
        """Set when there is something to make durable, or to end."""
        self._in_flight: Group | None = None
        """The group that is being written and synced."""
        self._rotation: tuple[asyncio.Future[Rotated], bool] | None = None
        """A requested start of a new segment, which the task makes between groups."""
        self._rotating: asyncio.Future[Rotated] | None = None
        """The same while it is being made."""
        self._rebuilding: asyncio.Future[None] | None = None
        """Resolved once the ledger holds nothing that was refused; None while it does not."""
        self._distrusted: Error | None = None
        """The exception that left the ledger in doubt, until the stream is rolled back."""
        self._closing = False
        """Whether the task ends once everything offered is durable."""
        self._is_broken = False
        """Whether the task ended while the ledger held changes that are not durable."""
        self.failure: Error | None = None
        """Why nothing can be stored at the moment."""
        self.task = asyncio.create_task(self._run(), name=f"commit {store.config.name}")

    @property
    def backlog_bytes(self) -> int:
        """Return how much waits to become durable."""
        waiting = self._sequencer.group.nbytes
        return waiting + self._in_flight.nbytes if self._in_flight else waiting

    @property
    def is_idle(self) -> bool:
        """Return whether everything offered is durable and nothing is wrong."""
        return self._in_flight is None and not self._sequencer.group and self.failure is None

    @property
    def is_settled(self) -> bool:
        """Return whether `intact` and `settled` would return at once."""
        return self.is_idle and not self._holds_refused and not self.task.done()

    def wake(self) -> None:
        """Make the current group durable soon."""
        if not self._offered_s and self._sequencer.group:
            self._offered_s = time.perf_counter()
        self._wake.set()
        self._events.changed()

    def distrust(self, error: Error) -> None:
        """Roll back to what is durable: after an exception the ledger may hold half a change."""
        if self.failure is not None:
            return
        self.failure = self._distrusted = error
        self._rebuilding = asyncio.get_running_loop().create_future()
        self._wake.set()

    def require_storing(self) -> None:
        """Refuse a change while nothing can be stored."""
        if self.failure is not None:
            raise _refusal(self.failure)

    async def settled(self) -> None:
        """Return once everything offered so far is durable; raise if that fails."""
        if self._sequencer.group:
            if self.task.done():
                raise _refusal(self.failure or Error())
            self._wake.set()
            await asyncio.shield(self._sequencer.group.done)
        elif self._in_flight is not None:
            await asyncio.shield(self._in_flight.done)
        elif self._holds_refused:
            raise _refusal(self.failure or Error())

    async def readable(self) -> None:
        """Return once everything offered so far is durable and can be read."""
        await self.settled()
        if self._store.adoptions:
            await self._store.adoptions.ended()

    @property
    def _holds_refused(self) -> bool:
        """Return whether the ledger may hold changes that were refused: it is not rebuilt yet, or never."""
        return self._rebuilding is not None or self._is_broken

    def promise(self) -> asyncio.Future[None]:
        """Return a future that is done once everything offered so far is durable, and fails if that fails."""
        group = self._sequencer.group or self._in_flight
        if self.failure is None and group is not None:
            return group.done
        promise: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.failure is not None:
            _fail(promise, _refusal(self.failure))
        else:
            promise.set_result(None)
        return promise

    async def intact(self) -> None:
        """Return once the ledger holds nothing that was refused; raise if it cannot be brought to that."""
        while self._rebuilding is not None:
            await asyncio.shield(self._rebuilding)
        if self.task.done():
            raise _refusal(self.failure or Error())

    async def rotate(self, *, dump: bool) -> Rotated:
        """Seal the log's segment; with `dump`, also return the ledger as of its end."""
        assert self._rotation is None
        if self.failure is not None:
            raise self.failure
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
        try:
            while not self._closing or self._sequencer.group or self._distrusted:
                await self._wake.wait()
                self._wake.clear()
                while self._sequencer.group or self._rotation or self._distrusted:
                    await self._commit_next()
                self._offered_s = 0.0  # what was refused does not count as waiting
                if self._closing:
                    self._wake.set()
        except FencedError as error:
            # Final: what was not acknowledged may be in the log or not; the new owner's replay decides.
            logger.error("stream %s: %s", self._store.config.name, error)
            self.failure = error
        except Exception as error:
            logger.exception(
                "stream %s failed and stores nothing until it is opened again", self._store.config.name
            )
            self.failure = Error(f"the stream failed: {error!r}")
            raise
        finally:
            self._end()

    def _end(self) -> None:
        """Fail everything that still waits."""
        self._is_broken = bool(self._in_flight or self._rebuilding or self._sequencer.group.encoded)
        self.failure = self.failure or Error("the stream is closed")
        if self._in_flight is not None:
            self._refuse(self._in_flight, self.failure)
            self._in_flight = None
        if self._rotating is not None:
            _fail(self._rotating, self.failure)
        self._refuse_waiting(self.failure)
        self._rebuilt(self.failure)

    async def _commit_next(self) -> None:
        if self._distrusted is not None:
            error, self._distrusted = self._distrusted, None
            await self._recover(Group(), error)
            return
        group, self._sequencer.group = self._sequencer.group, Group()
        rotation, self._rotation = self._rotation, None
        self._rotating = rotation[0] if rotation else None
        # Taken here, the ledger is exactly what the log will hold after this group.
        dumped = self._store.ledger.dump(self._events.consumer_states()) if rotation and rotation[1] else None
        self._in_flight = group
        began_s = time.perf_counter()
        offered_s, self._offered_s = self._offered_s or began_s, 0.0
        try:
            positions = await self._on_disk(self._write, group.encoded)
        except DiskError as error:
            self._meters.refused_commits += 1
            self._in_flight = None
            if rotation:
                _fail(rotation[0], error)
            await self._recover(group, error)
            return
        for index, entry in group.entries:
            entry.position = positions[index]
        self._in_flight = None
        stored = group.last_seq - self._store.synced_seq if group.entries else 0
        self._finish(group)
        if group.encoded:
            now_s = time.perf_counter()
            self._meters.committed(stored, group.nbytes, now_s - began_s, now_s - offered_s)
        self._store.head.settle()
        if rotation:
            await self._rotate(rotation[0], dumped)

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
        if group.encoded:
            self._store.synced_seq = group.last_seq
            merge_known(self._store.durable_upstreams, group.upstreams)
        frames = group.answers(self._acks)
        if frames:
            self._send(frames)
        if not group.done.done():
            group.done.set_result(None)
        if group.encoded:
            self._events.changed()
        if group.entries:
            self._events.stored([entry for _, entry in group.entries])

    async def _rotate(self, rotated: asyncio.Future[Rotated], dumped: dict[str, Any] | None) -> None:
        try:
            segment = await self._on_disk(self._store.log.rotate)
        except DiskError as error:
            _fail(rotated, error)
            await self._recover(Group(), error)
            return
        if not rotated.done():
            rotated.set_result((segment, dumped))

    async def _recover(self, group: Group, error: Error) -> None:
        """Roll back to what is durable, and refuse everything for as long as the disk fails.

        Readers are served again as soon as the ledger is rebuilt, publishers once the log can be written.
        """
        self.failure = error
        logger.error("stream %s: %s; rolling back to what is durable", self._store.config.name, error)
        if self._rebuilding is None:
            self._rebuilding = asyncio.get_running_loop().create_future()
        self._refuse(group, error)
        waits = Backoff(RETRY_FIRST_S, RETRY_MOST_S)
        rolled_back = False
        while True:
            self._refuse_waiting(error)
            try:
                if not rolled_back:
                    rolled_back = await self._roll_back()
                if self._rebuilding is not None:
                    await self._rebuild()
            except FencedError:
                raise
            except Error as again:
                self.failure = error = again
                self._rebuilt(again)
                self._rebuilding = asyncio.get_running_loop().create_future()
            if self._closing or (rolled_back and self._rebuilding is None):
                break
            await asyncio.sleep(waits.next_s())
        if rolled_back and self._rebuilding is None:
            self.failure = None
            logger.info("stream %s: storing again", self._store.config.name)

    async def _roll_back(self) -> bool:
        """Return whether the log can be written again; it holds nothing unsynced, either way."""
        try:
            await self._on_disk(self._store.log.rollback)
        except DiskError as error:
            self.failure = error
            return False
        return True

    async def _rebuild(self) -> None:
        # A fold must neither replace the checkpoint nor trim segments while this reads them.
        async with self._store.trimming:
            replayed = await self._on_disk(self._store.replay)
        assert self.failure is not None
        self._refuse_waiting(self.failure)
        self._store.adopt(replayed)
        self._acceptor.configure()
        self._events.rebuilt()
        self._adopter.start()
        self._rebuilt()

    def _rebuilt(self, error: Error | None = None) -> None:
        rebuilding, self._rebuilding = self._rebuilding, None
        self._events.changed()
        if rebuilding is None:
            return
        if error is None:
            rebuilding.set_result(None)
        else:
            _fail(rebuilding, _refusal(error))

    def _refuse_waiting(self, error: Error) -> None:
        """Refuse what was offered, and fail a rotation that waits."""
        group, self._sequencer.group = self._sequencer.group, Group()
        self._refuse(group, error)
        rotation, self._rotation = self._rotation, None
        if rotation:
            _fail(rotation[0], error)
        if group.encoded and self._rebuilding is None:
            self._rebuilding = asyncio.get_running_loop().create_future()

    def _refuse(self, group: Group, error: Error) -> None:
        refusal = _refusal(error)
        frames = group.refusals(self._acks, refusal)
        if frames:
            self._send(frames)
        _fail(group.done, refusal)


def _refusal(error: Error) -> ApiError:
    return api_error("stream_store_failed", err=str(error))


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # mark it as read: no task may be waiting
