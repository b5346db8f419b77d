"""One stream: published to, read, purged, expired, folded; the only door to its parts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

from headwater.errors import ApiError, DiskError, api_error
from headwater.model.columns import Columns
from headwater.model.message import Message
from headwater.model.stream import LostMessages, StreamConfig, StreamState
from headwater.stream import purge, retention
from headwater.stream.committer import Committer
from headwater.stream.folder import Folder
from headwater.stream.intake import Intake, Item
from headwater.stream.offered import OfferedRun
from headwater.stream.reader import Reader
from headwater.stream.removal import Removal
from headwater.stream.store import Services, Store, keeps_history
from headwater.wire.pub_ack import PubAcks

EXPIRE_AT_ONCE = 10_000
"""How many messages with a time to live of their own leave in one change, at the most."""


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
        self._intake = Intake(store)
        self._acks = PubAcks(config.name, store.services.domain)
        self._send = store.services.send
        self._committer = Committer(store, self._intake, self._acks)
        self._reader = Reader(store)
        self.folder = Folder(store, self._committer)
        self._next_age_ns: int | None = None
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
        return self._committer.backlog_bytes

    def offer(self, items: Sequence[Item]) -> None:
        """Take in published messages; each is answered once it is durable, or refused."""
        failure = self._committer.failure
        if failure is not None:
            error = api_error("stream_store_failed", err=str(failure))
            self._send(b"".join(self._acks.error(reply, error) for _, reply, _, _ in items if reply))
            return
        self._intake.offer(items)
        self._committer.wake()

    async def settled(self) -> None:
        """Return once everything offered so far is durable."""
        await self._committer.settled()

    async def caught_up(self) -> None:
        """Return once nothing waits to become durable, or could not be made so."""
        while self._committer.backlog_bytes:
            with suppress(ApiError):
                await self._committer.settled()

    async def state(self) -> StreamState:
        """Return what the stream holds."""
        await self.settled()
        ledger = self._store.ledger
        first_ts = await self._first_ts()
        lost = tuple(ledger.lost)
        return StreamState(
            messages=ledger.messages,
            bytes=ledger.size,
            first_seq=ledger.first_seq,
            first_ts=first_ts,
            last_seq=ledger.last_seq,
            last_ts=ledger.last_ts,
            num_subjects=len(ledger.subjects),
            num_deleted=len(ledger.deleted),
            lost=LostMessages(lost, 0) if lost else None,
        )

    async def _first_ts(self) -> int:
        ledger = self._store.ledger
        if not ledger.messages:
            return 0
        if ledger.first_ts is None:
            message = await self._reader.message(ledger.first_seq)
            assert message is not None
            ledger.first_ts = message.ts
        return ledger.first_ts

    async def message(self, seq: int) -> Message | None:
        """Return the message at a sequence."""
        await self.settled()
        return await self._reader.message(seq)

    async def last(self, filter: str, up_to_seq: int | None = None) -> Message | None:
        """Return the newest message whose subject matches."""
        await self.settled()
        return await self._reader.last(filter, up_to_seq)

    async def next(self, filter: str, start_seq: int) -> Message | None:
        """Return the oldest message from a sequence on whose subject matches."""
        await self.settled()
        return await self._reader.next(filter, start_seq)

    async def seq_at(self, ts: int) -> int:
        """Return the first live sequence with a time not before `ts`; one past the last if there is none."""
        await self.settled()
        return await self._reader.seq_at(ts)

    async def last_seqs(self, filters: Sequence[str], up_to_seq: int | None, limit: int) -> list[int] | None:
        """Return the newest sequence of every matching subject, ascending; None beyond `limit` subjects."""
        await self.settled()
        return await self._reader.last_seqs(filters, up_to_seq, limit)

    async def scan(
        self, start_seq: int, filters: Sequence[str] = (), stop_seq: int | None = None
    ) -> AsyncIterator[list[Message]]:
        """Yield live matching messages in order, many at a time."""
        await self.settled()
        async for messages in self._reader.scan(start_seq, filters, stop_seq):
            yield messages

    async def pending(self, start_seq: int, filters: Sequence[str] = ()) -> int:
        """Return how many live messages match from a sequence on."""
        await self.settled()
        return await self._reader.pending(start_seq, filters)

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
        self._intake.remove(removal)
        await self.settled()
        return True

    async def purge(self, *, filter: str = "", seq: int = 0, keep: int = 0) -> int:
        """Take out what matches, below a sequence or but for the newest `keep`; return how many."""
        await self.settled()
        ledger = self._store.ledger
        everything = filter in ("", ">")
        if everything and keep == 0 and (seq == 0 or seq > ledger.last_seq):
            purged = ledger.messages
            self._intake.remove(Removal(everything=True), last_seq=seq - 1 if seq else 0)
            await self.settled()
            return purged
        below_seq = seq or ledger.last_seq + 1
        total = await self._reader.pending(0, () if everything else (filter,))
        if seq:
            total -= await self._reader.pending(seq, () if everything else (filter,))
        purged = 0
        async for removal in purge.removals(self._store, filter, below_seq, keep, total):
            self._intake.remove(removal)
            purged += len(removal.seqs)
        await self.settled()
        return purged

    async def load(self, columns: Columns, *, last_seq: int = 0) -> None:
        """Take in messages with their own sequences and times, then consume sequences up to `last_seq`."""
        if len(columns):
            self._intake.load(OfferedRun.of(columns))
        if last_seq > self._store.ledger.last_seq:
            self._intake.remove(Removal(), last_seq=last_seq)
        await self.settled()

    async def reconfigure(self, config: StreamConfig) -> None:
        """Take up another config; what its limits have no room for goes at once."""
        await self.settled()
        store, ledger = self._store, self._store.ledger
        self.config = store.config = config
        ledger.dedupe.window_ns = config.duplicate_window
        if keeps_history(config) and ledger.subjects.history is None:
            await store.build_history()
        elif not keeps_history(config):
            ledger.subjects.history = None
        self._intake.configure()
        self._intake.enforce()
        self._next_age_ns = None
        await self.settled()

    def next_expiry_ns(self) -> int | None:
        """Return when a message may be due to expire; None if none will."""
        ledger = self._store.ledger
        due = ledger.expiry.next_ns()
        if self.config.max_age and ledger.messages:
            age = self._next_age_ns if self._next_age_ns is not None else ledger.first_ts or 0
            age += self.config.max_age
            due = age if due is None else min(due, age)
        return due

    async def expire(self, now_ns: int) -> int:
        """Take out what is too old; return how many messages went."""
        if self._committer.failure is not None:
            return 0
        ledger = self._store.ledger
        removal = Removal()
        # Look at the front before deciding, so that no read blocks the loop while it decides.
        await self._store.view.run_at(ledger.first_seq)
        if self.config.max_age:
            removal, oldest_ns = retention.too_old(
                ledger, self._store.view.read_run_at, now_ns - self.config.max_age
            )
            self._next_age_ns = oldest_ns
        await self._take_due(removal, now_ns)
        if not removal:
            return 0
        emptied = [s for s, gone in removal.subjects.items() if gone >= ledger.subjects.count[s]]
        self._intake.remove(removal)
        if self.config.subject_delete_marker_ttl:
            self._intake.store_markers(emptied, b"MaxAge")
        await self.settled()
        return len(removal.seqs)

    async def _take_due(self, removal: Removal, now_ns: int) -> None:
        """Add the messages whose own time to live has passed."""
        ledger = self._store.ledger
        for seq in ledger.expiry.pop_due(now_ns, EXPIRE_AT_ONCE):
            if ledger.is_live(seq) and seq not in removal.seqs:
                run = self._store.view.read_run_at(seq)
                assert run is not None
                removal.take(run, run.seqs.searchsorted([seq]), self._store.overhead)

    async def close(self) -> None:
        """Make everything durable and let go of the files."""
        await self._committer.close()
        self._store.close()

    async def checkpoint(self) -> None:
        """Fold everything and trim the log, so that the next open has little to replay."""
        try:
            await self.folder.fold(force_checkpoint=True)
        except DiskError as error:
            raise api_error("stream_store_failed", err=str(error)) from error
