"""Publishing to a stream: messages are offered, stored in the order of their arrival, and answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Sequence
from contextlib import suppress

from headwater.errors import ApiError, Error, api_error
from headwater.model.columns import Columns
from headwater.stream.committer import Committer
from headwater.stream.older_messages import OlderMessages
from headwater.stream.publishing.acceptor import Acceptor
from headwater.stream.publishing.counter import CounterTotals
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.reader import Reader
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Store
from headwater.wire.frames import Frame
from headwater.wire.pub_ack import PubAcks

logger = logging.getLogger(__name__)


class StreamPublishing:
    """Takes published messages of one stream; each is answered once it is durable, or refused."""

    def __init__(self, store: Store, acceptor: Acceptor, committer: Committer, acks: PubAcks) -> None:
        self._store = store
        self._acceptor = acceptor
        self._sequencer = acceptor.sequencer
        self._committer = committer
        self._acks = acks
        self._reader = Reader(store)
        self._older = OlderMessages(
            store, acceptor.mapped, self._offer, committer.promise, lambda: acceptor.counters
        )
        self.congestion: Error | None = None
        """Why messages are refused although nothing has failed: too much waits for a disk that hangs."""

    @property
    def backlog_bytes(self) -> int:
        """Return how many bytes wait to become durable."""
        return self._committer.backlog_bytes + self._older.nbytes

    @property
    def failure(self) -> Error | None:
        """Return why messages are refused at the moment; None if they are not."""
        return self._committer.failure or self.congestion

    @property
    def counters(self) -> CounterTotals | None:
        """Return the totals of a counter stream."""
        return self._acceptor.counters

    @property
    def is_storing(self) -> bool:
        """Return whether changes can be recorded at the moment."""
        return self._committer.failure is None

    def require_storing(self) -> None:
        """Raise if nothing can be stored at the moment."""
        self._committer.require_storing()

    def offer(self, items: Sequence[Frame]) -> None:
        """Take published messages; each is answered once it is durable, or refused."""
        if self.failure is not None and not self._older.is_holding:
            self.refuse(items, self.failure)
        elif not self._older.holds(items):
            self._offer(items)

    def _offer(self, items: Sequence[Frame]) -> None:
        failure = self._committer.failure
        if failure is not None:
            self.refuse(items, failure)
            return
        try:
            self._acceptor.offer(items)
        except Exception as error:
            # A bug, or a message that the code does not foresee: this stream replays, others are unaffected.
            logger.exception("stream %s: cannot process a message", self._store.config.name)
            failure = Error(f"the stream failed on a message: {type(error).__name__}")
            answered = self._sequencer.group.replies()
            self._committer.distrust(failure)
            self.refuse([item for item in items if item[1] not in answered], failure)
        self._committer.wake()

    def may_refuse(self, items: Sequence[Frame]) -> bool:
        """Return whether one of these messages may be refused for its size, so that each needs its answer."""
        return self._acceptor.may_refuse(items)

    def refuse(self, items: Sequence[Frame], failure: Error) -> None:
        """Answer every publisher that the stream cannot store its message."""
        error = api_error("stream_store_failed", err=str(failure))
        if not self._store.config.no_ack:
            frames = b"".join(self._acks.error(reply, error) for _, reply, _, _ in items if reply)
            self._store.services.send(frames)

    def promise(self) -> asyncio.Future[None]:
        """Return a future that is done once everything offered so far is durable, and fails if that fails."""
        if self.congestion is not None:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(api_error("stream_store_failed", err=str(self.congestion)))
            return refused
        return self._older.promise() if self._older.is_holding else self._committer.promise()

    async def locate_older(self, subjects: Sequence[bytes], headers: Sequence[bytes]) -> None:
        """Find, on a thread, the older messages that copied ones will take out."""
        await self._older.locate_copied(subjects, headers)

    async def locate_excess(self, subjects: Collection[bytes]) -> bool:
        """Find, on a thread, what is over the limit on these subjects; return whether it was found."""
        return await self._older.locate_excess(subjects)

    async def settled(self) -> None:
        """Return once everything offered so far is durable and can be read."""
        if self._older.is_holding:
            # Collect all promises first: a refusal during the wait for one of them must not be missed.
            promises = [self._committer.promise(), *self._older.promises()]
            await asyncio.wait(promises)
            for promise in promises:
                promise.result()
        await self._committer.readable()

    async def caught_up(self) -> None:
        """Return once nothing waits to become durable, also if some of it failed to."""
        while self.backlog_bytes:
            with suppress(ApiError):
                await self.settled()

    async def prepare(self, pattern: str) -> None:
        """Find the subjects of a pattern that a message refers to, before that message is offered."""
        await self._store.ledger.subjects.prepare(pattern, self._reader.last_on)

    def unprepare(self) -> None:
        """Forget what `prepare` found."""
        self._store.ledger.subjects.unprepare()

    async def load(self, columns: Columns, *, last_seq: int = 0) -> None:
        """Store messages with their own sequences and times, then consume sequences up to `last_seq`."""
        self._committer.require_storing()
        if len(columns):
            self._sequencer.load(OfferedRun.of(columns))
        if last_seq > self._store.ledger.last_seq:
            self._sequencer.remove(Removal(), last_seq=last_seq)
        await self.settled()

    async def drained(self) -> None:
        """Return once every publish that was held back has been offered."""
        await self._older.drained()
