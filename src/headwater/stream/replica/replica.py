"""What replication reads from a stream that is an origin, and puts into one that is a target."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping, Sequence

from pyroaring import BitMap64

from headwater.errors import ApiError, Error, api_error
from headwater.model.adopted import Adopted
from headwater.model.columns import Columns, concat
from headwater.model.run import Run
from headwater.model.stream import Discard, Retention, StreamConfig
from headwater.stream.committer import Committer
from headwater.stream.events import StreamEvents
from headwater.stream.folder import Fold
from headwater.stream.publishing.dedupe import FileIds
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.publishing.publishing import StreamPublishing
from headwater.stream.replica.adopter import Adopter
from headwater.stream.replica.importer import CursorAt, Importer
from headwater.stream.sequencer import Sequencer
from headwater.stream.store import Store
from headwater.table.bucket_tables import BucketTables
from headwater.table.datafile import DataFile
from headwater.table.parquet import PACKED
from headwater.table.staging import Staging
from headwater.wire import column_bytes

logger = logging.getLogger(__name__)

FOLD_BYTES = 4 << 20
"""A head of this size is copied as a file: tails are small, and many tails are slow."""


class StreamReplica:
    """What replication uses of one stream."""

    def __init__(
        self,
        store: Store,
        sequencer: Sequencer,
        committer: Committer,
        adopter: Adopter,
        folder: Fold,
        publishing: StreamPublishing,
        events: StreamEvents,
    ) -> None:
        self._store = store
        self._sequencer = sequencer
        self._committer = committer
        self._adopter = adopter
        self._folder = folder
        self._publishing = publishing
        self._events = events
        self._importer = Importer(store, sequencer, lambda: publishing.counters)
        self.copied_bytes: Counter[str] = Counter()
        """Bytes of subjects, headers and data that each upstream has brought since the stream was opened."""
        self._folding: asyncio.Task[None] | None = None
        """Folds the origin early, so that a copy can use its files."""

    def address_of(self, file: DataFile) -> str:
        """Return where a transfer task finds a file of the stream's table."""
        return self._store.table.address_of(file)

    @property
    def volume(self) -> str:
        """Return a name for where files can be linked, or copied by the server, without being read."""
        return self._store.table.volume

    @property
    def compression(self) -> str:
        """Return how new files of the stream's table are compressed."""
        return PACKED if self._store.table.is_remote else str(self._store.config.compression)

    @property
    def staging(self) -> Staging:
        """Return where transfer tasks leave files for the stream."""
        return self._store.staging

    @property
    def tables(self) -> BucketTables | None:
        """Return the bucket for tables of the engine, if it has one."""
        return self._store.services.tables

    def files_from(self, start_seq: int, max_bytes: int) -> list[DataFile]:
        """Return the files with the next sequences, about `max_bytes` of them, at least one."""
        chosen: list[DataFile] = []
        size, seq = 0, start_seq
        for file in self._store.table.files:
            if file.last_seq < seq:
                continue
            # The head may hold messages before a file that was adopted after them.
            entry = self._store.head.entry_at(seq)
            if size >= max_bytes or (entry is not None and entry.first_seq < file.first_seq):
                break
            chosen.append(file)
            size += file.size_bytes
            seq = file.last_seq + 1
        return chosen

    def removed_between(self, start_seq: int, stop_seq: int) -> bytes:
        """Return which of these sequences hold no message, as a serialized bitmap."""
        ledger = self._store.ledger
        gone = ledger.deleted & BitMap64(range(start_seq, stop_seq + 1))
        if start_seq < ledger.first_seq:
            gone.add_range(start_seq, min(ledger.first_seq, stop_seq + 1))
        return bytes(gone.serialize())

    def removed_count(self, start_seq: int, stop_seq: int) -> int:
        """Return how many of these sequences hold no message."""
        ledger = self._store.ledger
        return stop_seq - start_seq + 1 - ledger.live_between(start_seq, stop_seq)

    @property
    def subject_count(self) -> int:
        """Return how many subjects the stream holds."""
        return len(self._store.ledger.subjects)

    def folds_first(self, start_seq: int) -> bool:
        """Return whether what the head holds from here on is too much for tails, and becomes a file now."""
        if self._folding is not None and not self._folding.done():
            return True
        if self._store.head.nbytes_from(start_seq) < FOLD_BYTES or self._committer.failure is not None:
            return False
        self._folding = asyncio.create_task(self._fold(), name=f"fold {self._store.config.name} for a copy")
        return True

    async def _fold(self) -> None:
        try:
            await self._folder.fold()
        except Error as error:
            logger.error("stream %s: %s", self._store.config.name, error)
        self._events.changed()
        self._events.has_messages()

    async def close(self) -> None:
        """Return once no task runs; files that still wait enter the table at the next open."""
        await self._adopter.close()
        if self._folding is not None:
            await asyncio.wait({self._folding})

    async def tail_from(self, start_seq: int, max_bytes: int) -> tuple[bytes, int]:
        """Return the next live messages, encoded, about `max_bytes`, and the last sequence they cover."""
        store = self._store
        stop_seq, size, parts = store.durable_seq, 0, []
        # Everything before the first message was removed, so the tail covers it.
        seq = max(start_seq, min(store.ledger.first_seq, stop_seq + 1))
        async for run, rows in store.live_runs(start_seq, stop_seq):
            wanted = rows.tolist()
            taken, size = _fitting(run, wanted, size, max_bytes)
            if taken:
                parts.append(OfferedRun.chosen(run, taken).columns())
            if len(taken) < len(wanted):
                seq = int(run.seqs[taken[-1]]) + 1
                break
            seq = min(int(run.seqs[-1]), stop_seq) + 1
            if size >= max_bytes:
                break
        return column_bytes.encode(concat(parts)) if parts else b"", seq - 1

    def cursor(self, upstream: str) -> bytes:
        """Return how far an upstream has been copied, nothing if it never was."""
        return self._importer.cursor(upstream)

    async def durable(self) -> None:
        """Return once all that was taken in is durable; raise while what was refused is being taken back."""
        await self._committer.settled()

    def durable_cursor(self, upstream: str) -> bytes:
        """Return how far an upstream is durably copied; nothing else may release data at its origin."""
        return self._store.durable_upstreams.get(upstream, b"")

    async def take(
        self,
        upstream: str,
        expected: bytes,
        columns: Columns,
        cursor_at: CursorAt,
        through: int,
        *,
        mirrored: bool,
    ) -> int:
        """Store what was copied up to `through`, exactly once; return how many messages were stored."""
        self.require_open()
        take = self._importer.take_mirrored if mirrored else self._importer.take_sourced
        run = OfferedRun.of(columns)
        await self._publishing.locate_older(run.subjects, run.headers)
        self.require_open()
        taken = take(upstream, expected, run, cursor_at, through)
        self._committer.wake()
        await self._publishing.settled()
        self.copied_bytes[upstream] += run.payload_bytes if taken else 0
        return taken

    async def pass_over(
        self, upstream: str, expected: bytes, cursor: bytes, noted: Mapping[str, bytes], last_seq: int = 0
    ) -> None:
        """Move a cursor past what its origin has no longer, and note that durably, both or neither.

        With `last_seq` the stream's sequences continue after it.
        """
        self.require_open()
        self._importer.pass_over(upstream, expected, cursor, noted, last_seq)
        self._committer.wake()
        await self._publishing.settled()

    def require_open(self) -> None:
        """Raise if nothing can be stored, or the stream is sealed."""
        self._committer.require_storing()
        if self._store.config.sealed:
            raise api_error("stream_sealed")

    def require_room(self, adopted: Sequence[Adopted]) -> None:
        """Refuse files for which the account has no room."""
        self._importer.require_room(adopted)

    def refusal(self) -> ApiError:
        """Return why the last messages that were not taken were refused."""
        return self._importer.refusal()

    @property
    def is_adoptive(self) -> bool:
        """Return whether a file of copied messages can become part of the stream unchanged."""
        return adopts_files(self._store.config) and not self._store.config.duplicate_window

    @property
    def is_adoptive_without_ids(self) -> bool:
        """Return whether it can if no message in it carries an id that the duplicate window must know."""
        return adopts_files(self._store.config)

    @property
    def records_sources(self) -> bool:
        """Return whether such a file can be one of a source's origin, which says nothing of that."""
        return self._store.table.records_sources

    async def adopt(
        self, upstream: str, expected: bytes, adopted: Sequence[Adopted], cursor: bytes, *, mirrored: bool
    ) -> int:
        """Adopt staged files of copied messages, exactly once; return how many messages they have.

        With a table in a bucket the files may enter the table later, so that the next range is copied
        meanwhile. Reads wait for them.
        """
        known = {upstream: cursor}
        placed = await self.adopt_files(
            upstream, expected, adopted, known, mirrored=mirrored, returns_early=self._may_overlap
        )
        self.copied_bytes[upstream] += sum(file.payload_bytes for file in placed)
        return sum(file.rows for file in placed)

    @property
    def _may_overlap(self) -> bool:
        """Return whether the next range may be copied while files enter the table.

        Only if no other file waits: each second range waits for all, or reads would never find the table
        complete. Limits are enforced on what is in the table.
        """
        config = self._store.config
        has_limits = config.max_msgs > 0 or config.max_bytes > 0 or config.max_age > 0
        return self.staging.is_remote and not self._store.adoptions and not has_limits

    async def adopt_files(
        self,
        upstream: str,
        expected: bytes,
        adopted: Sequence[Adopted],
        known: Mapping[str, bytes],
        *,
        mirrored: bool,
        returns_early: bool = False,
        ids: Sequence[FileIds] = (),
    ) -> list[Adopted]:
        """Adopt staged files in one change with what is `known` from then on; return them as they are placed.

        Once the log names the files they are part of the stream: from then on they are never given up. With
        `returns_early` that is enough; otherwise the table has them.
        """
        self.require_open()
        placed = self._importer.adopt(upstream, expected, adopted, known, mirrored=mirrored, ids=ids)
        self._committer.wake()
        try:
            await self._committer.settled()
        except Error:
            self._store.adoptions.withdraw(placed)
            raise
        if returns_early:
            self._adopter.start()
            return placed
        await self._adopter.finished(placed[-1].last_seq)
        while self._sequencer.enforce_totals():
            await self._publishing.settled()
        await self._publishing.settled()
        return placed

    def awaits(self, name: str) -> bool:
        """Return whether a staged file is one that the log names, or is about to, and the table has not."""
        return self._store.adoptions.awaits(name)


def adopts_files(config: StreamConfig) -> bool:
    """Return whether whole files can be adopted: no setting depends on single messages without an id."""
    return not (
        config.max_msgs_per_subject > 0
        or config.allow_msg_ttl
        or config.allow_rollup_hdrs
        or config.allow_msg_counter
        or config.allow_msg_schedules
        or config.republish
        or config.retention != Retention.LIMITS
        or (config.discard == Discard.NEW and (config.max_msgs > 0 or config.max_bytes > 0))
    )


def _fitting(run: Run, rows: list[int], size: int, max_bytes: int) -> tuple[list[int], int]:
    """Return the first rows that fit in addition to `size`, at least one, and the size then."""
    sizes = run.sizes
    for count, row in enumerate(rows):
        if size >= max_bytes and count:
            return rows[:count], size
        size += int(sizes[row])
    return rows, size
