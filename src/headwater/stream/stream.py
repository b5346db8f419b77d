"""One stream: published to, read, purged, expired, folded; the only door to its parts."""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from headwater.errors import ApiError, CorruptionError, DiskError, Error, api_error
from headwater.model.adopted import Adopted
from headwater.model.columns import Columns
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.model.stream import LostMessages, Retention, StreamConfig, StreamState
from headwater.model.times import format_time
from headwater.model.upstream import hash8
from headwater.stream.committer import Committer
from headwater.stream.folder import Fold
from headwater.stream.group import Group
from headwater.stream.ledger import Ledger
from headwater.stream.listener import Listener
from headwater.stream.older_messages import OlderMessages
from headwater.stream.publishing.atomic_batch import Abandoned
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.publishing.publishing import Item, StreamPublishing
from headwater.stream.reader import Reader
from headwater.stream.replay import keeps_history
from headwater.stream.replica.copying import Copying
from headwater.stream.retention import purge, release
from headwater.stream.retention.hold import StreamHolds
from headwater.stream.retention.removal import Removal
from headwater.stream.store import Services, Store
from headwater.stream.timing.expirer import Expirer
from headwater.wire.pub_ack import PubAcks

logger = logging.getLogger(__name__)
logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Stream:
    """A stream whose changes are durable before anyone is told of them."""

    def __init__(
        self,
        config: StreamConfig,
        created_ns: int,
        store: Store,
    ) -> None:
        self.config = config
        self.created_ns = created_ns
        self._store = store
        self._intake = StreamPublishing(store)
        self._acks = PubAcks(config.name, store.services.domain)
        self._send = store.services.send
        self._committer = Committer(store, self._intake, self._acks)
        self._older = OlderMessages(store, self._offer, self._committer.promise)
        self._older.stored_subject = self._intake.mapped
        self._reader = Reader(store)
        self._expirer = Expirer(store, self._intake, self._committer)
        self.folder = Fold(store, self._committer)
        self.copying = Copying(store, self._intake, self._committer, self.folder, self.settled)
        self._listener: Listener | None = None
        self.holds = StreamHolds()
        """What upstreams that are copied from here need; asked where retention is not by limits."""
        self._intake.wants = self._wants
        self.congestion: Error | None = None
        """Why nothing more is taken in although nothing has failed: too much waits for a disk that hangs."""
        self._known_bytes = 0
        """What the stream held when it last answered."""
        self.watchers: set[Callable[[], None]] = set()
        """Called when there are new messages."""
        self._intake.enforce()
        self._committer.wake()

    @classmethod
    async def open(
        cls,
        directory: Path,
        config: StreamConfig,
        *,
        created_ns: int,
        services: Services,
    ) -> Stream:
        """Return the stream that lies in this directory, made if there is none."""
        loop = asyncio.get_running_loop()
        store = await loop.run_in_executor(services.work_executor, Store, directory, config, services)
        return cls(config, created_ns, store)

    @property
    def name(self) -> str:
        """Return the stream's name."""
        return self.config.name

    @property
    def directory(self) -> Path:
        """Return where the stream lies."""
        return self._store.directory

    @property
    def backlog_bytes(self) -> int:
        """Return how much waits to become durable."""
        return self._committer.backlog_bytes + self._older.nbytes

    @property
    def failure(self) -> str:
        """Return why nothing can be stored at the moment; nothing if all is well."""
        failure = self._committer.failure or self.congestion or self.folder.failure
        return str(failure) if failure is not None else ""

    @property
    def on_touched(self) -> Callable[[], None]:
        """Return what is called when something is stored, removed or recorded, or fails to be."""
        return self._committer.on_touched

    @on_touched.setter
    def on_touched(self, touched: Callable[[], None]) -> None:
        self._committer.on_touched = touched

    def listen(self, listener: Listener) -> None:
        """Tell the listener what happens from now on."""
        self._listener = listener
        self._intake.on_removed = listener.on_removed
        self._store.ledger.dump_consumers = listener.dump
        self._committer.on_durable = self._stored
        self._committer.on_rebuilt = self._was_rebuilt
        self.copying.on_adopted = self._has_adopted
        self.copying.on_folded = self._has_more

    def _wants(self, subject: bytes) -> bool:
        listener = self._listener
        return (listener is not None and listener.wants(subject)) or self.holds.wants(subject)

    def on_abandoned(self, tell: Callable[[bytes, Abandoned], None]) -> None:
        """Have it told which atomic batches are given up, and why."""
        self._intake.on_abandoned = tell

    def _stored(self, group: Group) -> None:
        assert self._listener is not None
        if group.entries:
            self._inform(self._listener.on_stored, [entry for _, entry in group.entries])
            self._wake_watchers()

    def _inform(self, listener: Callable[..., None], *what: object) -> None:
        """Call a listener; an error in it is its own, and keeps nothing from being stored."""
        try:
            listener(*what)
        except Exception:
            logger.exception("stream %s: a listener failed", self.name)

    def _has_adopted(self, adopted: Adopted) -> None:
        assert self._listener is not None
        self._inform(self._listener.on_adopted, adopted)
        self._has_more()

    def _has_more(self) -> None:
        self._inform(self._committer.on_touched)
        self._wake_watchers()

    def _wake_watchers(self) -> None:
        for watch in list(self.watchers):
            self._inform(watch)

    def _was_rebuilt(self) -> None:
        assert self._listener is not None
        self._inform(self._listener.on_rebuilt)
        self._inform(self.holds.rebuilt)
        self._store.ledger.dump_consumers = self._listener.dump
        self.copying.see_to_adoptions()

    @property
    def durable_seq(self) -> int:
        """Return the last sequence that would survive a power cut."""
        return self._store.durable_seq

    @property
    def generation(self) -> int:
        """Return a number that changes when refused changes are taken back."""
        return self._store.generation

    @property
    def last_seq(self) -> int:
        """Return the last sequence that was ever assigned."""
        return self._store.ledger.last_seq

    @property
    def first_seq(self) -> int:
        """Return the first sequence, or the one after the last if there is no message."""
        return self._store.ledger.first_seq

    @property
    def is_storing(self) -> bool:
        """Return whether changes can be recorded at the moment."""
        return self._committer.failure is None

    def require_storing(self) -> None:
        """Refuse a change while nothing can be stored."""
        self._committer.require_storing()

    @property
    def recorded_names(self) -> list[str]:
        """Return the consumers of which replay found anything."""
        return list(self._store.ledger.consumers)

    def recorded(self, consumer: str) -> list[bytes]:
        """Return what replay found of a consumer: its state at the checkpoint, then its changes."""
        return self._store.ledger.consumers.get(consumer, [])

    async def restore_consumers(self, states: Mapping[str, bytes]) -> None:
        """Take in whole states of consumers that are opened with the stream."""
        self._committer.require_storing()
        for name, state in states.items():
            self._store.ledger.note_consumer(name, state)
        self._intake.record(states, None)
        await self.settled()

    def record(
        self,
        consumers: Mapping[str, bytes],
        *,
        removal: Removal | None = None,
        then: Sequence[bytes] = (),
    ) -> None:
        """Have consumers' changes, and what they let go, made durable as one; then send these frames.

        Only while the stream stores. What the disk refuses afterwards is taken back: `on_rebuilt` follows.
        """
        assert self.is_storing, "a change that is taken and not recorded is lost"
        if consumers or removal:
            self._intake.record(consumers, removal)
        self._intake.group.after += then
        self._committer.wake()

    def removal_of(self, seqs: Sequence[int]) -> tuple[Removal, list[int]]:
        """Return the removal of these messages, as far as they are there, and those not readable now."""
        removal = Removal()
        unread: list[int] = []
        ledger = self._store.ledger
        wanted = sorted(seq for seq in set(seqs) if ledger.is_live(seq))
        while wanted:
            try:
                run = self._store.view.read_run_at(wanted[0])
            except Error as error:
                logger.error("stream %s: settled messages stay for now: %s", self.name, error)
                here = bisect_right(wanted, self._store.view.reach(wanted[0]))
                unread += wanted[:here]
                wanted = wanted[here:]
                continue
            assert run is not None
            here = bisect_right(wanted, int(run.seqs[-1]))
            removal.take(run, run.seqs.searchsorted(wanted[:here]), self._store.overhead)
            wanted = wanted[here:]
        return removal, unread

    async def run_at(self, seq: int) -> Run | None:
        """Return the first run that has a row at or after a sequence."""
        return await self._store.view.run_at(seq)

    def resident_run(self, seq: int) -> Run | None:
        """Return that run if it lies in memory."""
        return self._store.view.resident_run_at(seq)

    def live_rows(self, run: Run, start_seq: int = 0, at_most: int | None = None) -> npt.NDArray[np.intp]:
        """Return which rows of a run are alive and not below `start_seq`, of so many that come next."""
        return self._store.ledger.live_rows(run, start_seq, at_most)

    def subject_at(self, seq: int) -> bytes | None:
        """Return the subject of a live message; may read its run."""
        if not self._store.ledger.is_live(seq):
            return None
        run = self._store.view.read_run_at(seq)
        return None if run is None else run.subjects[int(run.seqs.searchsorted(seq))]

    def is_live(self, seq: int) -> bool:
        """Return whether a message stands at a sequence."""
        return self._store.ledger.is_live(seq)

    def live_between(self, start_seq: int, stop_seq: int) -> int:
        """Return how many messages live from `start_seq` to `stop_seq`, both included."""
        return self._store.ledger.live_between(start_seq, stop_seq)

    def offer(self, items: Sequence[Item]) -> None:
        """Take in published messages; each is answered once it is durable, or refused."""
        failure = self._committer.failure or self.congestion
        if failure is not None and not self._older.is_holding:
            self.refuse(items, failure)
        elif not self._older.holds(items):
            self._offer(items)

    def _offer(self, items: Sequence[Item]) -> None:
        failure = self._committer.failure
        if failure is not None:
            self.refuse(items, failure)
            return
        try:
            self._intake.offer(items)
        except Exception as error:
            # A bug, or a message that nobody thought of: it costs this stream a replay, and others nothing.
            logger.exception("stream %s cannot take a message", self.name)
            failure = Error(f"the stream failed on a message: {type(error).__name__}")
            answered = self._intake.group.replies()
            self._committer.distrust(failure)
            self.refuse([item for item in items if item[1] not in answered], failure)
        self._committer.wake()

    def refuse(self, items: Sequence[Item], failure: Error) -> None:
        """Answer every publisher that the stream cannot store its message."""
        error = api_error("stream_store_failed", err=str(failure))
        if not self.config.no_ack:
            self._send(b"".join(self._acks.error(reply, error) for _, reply, _, _ in items if reply))

    def promise(self) -> asyncio.Future[None]:
        """Return what is done once all just offered is durable, and fails if it cannot be made so."""
        if self.congestion is not None:
            refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            refused.set_exception(api_error("stream_store_failed", err=str(self.congestion)))
            return refused
        return self._older.promise() if self._older.is_holding else self._committer.promise()

    async def settled(self) -> None:
        """Return once everything offered so far is durable and can be read."""
        if self._older.is_holding:
            # All from now on: what is refused while others are waited for must not be missed.
            promises = [self._committer.promise(), *self._older.promises()]
            await asyncio.wait(promises)
            for promise in promises:
                promise.result()
        await self._written()

    async def _written(self) -> None:
        """Return once all that the ledger holds is durable and can be read."""
        await self._committer.settled()
        if self._store.adoptions:
            await self._store.adoptions.ended()

    async def caught_up(self) -> None:
        """Return once nothing waits to become durable, or could not be made so."""
        while self.backlog_bytes:
            with suppress(ApiError):
                await self.settled()

    async def _answer(self, ask: Callable[[], Awaitable[_T]]) -> _T:
        """Return the answer to a question once all that it tells of is durable."""
        while True:
            await self._committer.intact()
            # The ledger names messages of a file that is still on its way into the table.
            await self._store.adoptions.ended()
            generation = self._store.generation
            answer = await ask()
            if await self._holds(generation):
                return answer

    async def _holds(self, generation: int) -> bool:
        """Return, once all that the ledger holds is durable, whether nothing was taken back since."""
        try:
            await self._written()
        except ApiError:
            return False
        return generation == self._store.generation

    @property
    def durable_bytes(self) -> int | None:
        """Return how much the stream holds; None while that is about to change or cannot be known."""
        if not self._committer.is_idle:
            return None
        self._known_bytes = self._store.ledger.size
        return self._known_bytes

    @property
    def known_bytes(self) -> int:
        """Return how much the stream held when it last answered."""
        return self._known_bytes

    async def consistent(self) -> None:
        """Return once all that the stream shows is durable; what was refused is taken back by then."""
        await self._answer(self._nothing)

    async def _nothing(self) -> None:
        """Ask nothing."""

    async def state(self) -> StreamState:
        """Return what the stream holds, messages on their way into the table included."""
        while True:
            await self._committer.intact()
            generation = self._store.generation
            state = await self._state()
            with suppress(ApiError):
                await self._committer.settled()
                if generation == self._store.generation:
                    self._known_bytes = state.bytes
                    return state

    async def _state(self) -> StreamState:
        ledger = self._store.ledger
        lost = tuple(ledger.lost)
        state = StreamState(
            messages=ledger.messages,
            bytes=ledger.size,
            first_seq=ledger.first_seq,
            last_seq=ledger.last_seq,
            last_ts=ledger.last_ts,
            num_subjects=len(ledger.subjects),
            num_deleted=len(ledger.deleted),
            lost=LostMessages(lost, 0) if lost else None,
        )
        return msgspec.structs.replace(state, first_ts=await self._first_ts(ledger))

    async def _first_ts(self, ledger: Ledger) -> int:
        """Return when the first message was stored, 0 if there is none or it cannot be read."""
        if not ledger.messages:
            return 0
        if ledger.first_ts is not None:
            return ledger.first_ts
        first_seq = ledger.first_seq
        if (file := self._store.adoptions.holding(first_seq)) is not None:
            return file.first_ts  # nobody can read it yet, and this must be answered
        try:
            run = await self._store.view.run_at(first_seq)
        except CorruptionError:
            return 0
        if run is None:
            return 0
        first_ts = int(run.ts[int(run.seqs.searchsorted(first_seq))])
        if ledger.first_seq == first_seq:
            ledger.first_ts = first_ts
        return first_ts

    async def message(self, seq: int) -> Message | None:
        """Return the message at a sequence."""
        return await self._answer(lambda: self._reader.message(seq))

    async def last(self, filter: str, up_to_seq: int | None = None) -> Message | None:
        """Return the newest message whose subject matches."""
        return await self._answer(lambda: self._reader.last(filter, up_to_seq))

    async def next(self, filter: str, start_seq: int) -> Message | None:
        """Return the oldest message from a sequence on whose subject matches."""
        return await self._answer(lambda: self._reader.next(filter, start_seq))

    async def seq_at(self, ts: int) -> int:
        """Return the first live sequence with a time not before `ts`; one past the last if there is none."""
        return await self._answer(lambda: self._reader.seq_at(ts))

    async def last_seqs(self, filters: Sequence[str], up_to_seq: int | None, limit: int) -> list[int] | None:
        """Return the newest sequence of every matching subject, ascending; None beyond `limit` subjects."""
        return await self._answer(lambda: self._reader.last_seqs(filters, up_to_seq, limit))

    async def scan(
        self, start_seq: int, filters: Sequence[str] = (), stop_seq: int | None = None
    ) -> AsyncIterator[list[Message]]:
        """Yield live matching messages in order, many at a time."""
        while True:
            await self._committer.intact()
            generation = self._store.generation
            async for messages in self._reader.scan(start_seq, filters, stop_seq):
                if not await self._holds(generation):
                    break
                yield messages
                start_seq = messages[-1].seq + 1
            else:
                return

    async def pending(self, start_seq: int, filters: Sequence[str] = (), stop_seq: int | None = None) -> int:
        """Return how many live messages match from a sequence on, up to another if one is given."""
        return await self._answer(lambda: self._reader.pending(start_seq, filters, stop_seq))

    async def counted_subjects(self, filter: str) -> dict[bytes, int]:
        """Return the same as `subject_counts`, without holding up the event loop."""
        count = self._store.ledger.subjects.count
        found = await self._store.ledger.subjects.matched(filter)
        return {subject: count[subject] for subject in found if subject in count}

    async def prepare(self, pattern: str) -> None:
        """Look for the subjects of a pattern that a message is about, before that message is offered."""
        await self._store.ledger.subjects.prepare(pattern)

    def unprepare(self) -> None:
        """Forget what was looked for."""
        self._store.ledger.subjects.unprepare()

    def subject_counts(self, filter: str) -> dict[bytes, int]:
        """Return how many messages stand on each matching subject."""
        subjects = self._store.ledger.subjects
        return {subject: subjects.count[subject] for subject in subjects.matching(filter)}

    def deleted(self) -> list[int]:
        """Return the sequences between first and last that hold no message."""
        return list(self._store.ledger.deleted)

    async def remove(self, seq: int, *, erase: bool = True) -> bool:
        """Take out one message; return whether there was one."""
        await self.settled()
        run = await self._store.view.run_at(seq) if self._store.ledger.is_live(seq) else None
        if run is None or not self._store.ledger.is_live(seq):
            return False
        removal = Removal()
        removal.take(run, run.seqs.searchsorted([seq]), self._store.overhead)
        self._remove(removal)
        await self.settled()
        return True

    def _remove(self, removal: Removal, *, last_seq: int = 0) -> None:
        """Take out messages, unless nothing can be stored."""
        self._committer.require_storing()
        self._intake.remove(removal, last_seq=last_seq)

    async def purge(self, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        """Take out what matches, below a sequence or but for the newest `keep`; return how many."""
        await self.settled()
        ledger = self._store.ledger
        everything = filter in ("", ">")
        if everything and keep == 0 and (seq == 0 or seq > ledger.last_seq):
            purged = ledger.messages
            self._remove(Removal(everything=True), last_seq=seq - 1 if seq else 0)
            await self.settled()
            return purged
        below_seq = seq or ledger.last_seq + 1
        total = await self._reader.pending(0, () if everything else (filter,))
        if seq:
            total -= await self._reader.pending(seq, () if everything else (filter,))
        purged = 0
        async for removal in purge.removals(self._store, filter, below_seq, keep, total):
            self._remove(removal)
            purged += len(removal.seqs)
        await self.settled()
        return purged

    async def load(self, columns: Columns, *, last_seq: int = 0) -> None:
        """Take in messages with their own sequences and times, then consume sequences up to `last_seq`."""
        self._committer.require_storing()
        if len(columns):
            self._intake.load(OfferedRun.of(columns))
        if last_seq > self._store.ledger.last_seq:
            self._intake.remove(Removal(), last_seq=last_seq)
        await self.settled()

    @property
    def identity(self) -> str:
        """Return what tells this stream from another that had or will have its name, or its memory."""
        return self._store.identity or hash8(format_time(self.created_ns))

    async def reconfigure(self, config: StreamConfig) -> None:
        """Take up another config; what its limits have no room for goes. On an error the old one holds."""
        await self.settled()
        self._committer.require_storing()
        old = self.config
        try:
            await self._take_up(config)
            self._intake.enforce()
            if config.retention == Retention.INTEREST != old.retention:
                await self.drop_unneeded()
            await self.settled()
        except BaseException:
            await self._take_up(old)
            raise

    async def drop_unneeded(self, start_seq: int = 0, stop_seq: int | None = None) -> None:
        """Take out what nobody holds any more, in a range or everywhere, as the retention has it."""
        ledger, listener = self._store.ledger, self._listener
        if listener is None or self.config.retention == Retention.LIMITS:
            return
        if ledger.messages and listener.is_done_with(ledger.first_seq, ledger.last_seq):
            # Nothing is awaited before this, so nothing that came meanwhile goes with the rest.
            self._intake.remove(Removal(everything=True))
            return
        stop_seq = ledger.last_seq if stop_seq is None else min(stop_seq, ledger.last_seq)
        async for removal in release.removals(self._store, listener.released, start_seq, stop_seq):
            self._intake.remove(removal)

    async def _take_up(self, config: StreamConfig) -> None:
        store = self._store
        self.config = store.config = config
        if keeps_history(config) and store.ledger.subjects.history is None:
            await store.build_history()
        # Nothing is awaited from here on, so no message meets half a config.
        if not keeps_history(config):
            store.ledger.subjects.history = None
        store.ledger.dedupe.window_ns = config.duplicate_window
        store.ledger.dedupe.expire(store.services.clock.now_ns())
        self._intake.configure()
        self._expirer.configure()

    def next_expiry_ns(self) -> int | None:
        """Return when a message may be due to expire or to be published; None if none will."""
        return self._expirer.next_ns()

    async def expire(self, now_ns: int) -> int:
        """Take out what is too old and publish what is due; return how many messages went."""
        if self._committer.failure is not None:
            return 0
        gone = await self._expirer.expire(now_ns)
        await self.settled()
        return gone

    async def close(self) -> None:
        """Make everything durable and let go of the files."""
        await self._older.drained()
        await self.copying.close()
        await self.folder.close()
        await self._committer.close()
        self._intake.abandon_all()
        self._store.close()

    async def checkpoint(self) -> None:
        """Fold everything and trim the log, so that the next open has little to replay."""
        try:
            await self.folder.fold(force_checkpoint=True)
        except DiskError as error:
            raise api_error("stream_store_failed", err=str(error)) from error
