"""Folds messages from the log into the table, compacts the table's files, and erases removed messages.

Fold, step by step, and what a crash after each leaves behind:

1. The log is rotated. Only a new, empty segment.
2. The live messages of the sealed segments become one Parquet file. An unreferenced file, swept later.
3. The file is committed to the table with the last sequence it reaches. The messages are in both places;
   replay counts them but leaves them to the table.
4. The head releases them.
5. The ledger, as it stood at the rotation, is written as the checkpoint, its copy first. Old segments are
   still there.
6. The segments below it are trimmed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from pyroaring import BitMap64

from headwater.clock import AHEAD_NS
from headwater.errors import CorruptionError, Error
from headwater.log import checkpoint, checkpoint_copy
from headwater.model.columns import Columns, concat, keep
from headwater.stream.committer import Committer
from headwater.stream.head import HeadEntry
from headwater.stream.ledger import encode, members
from headwater.stream.retention.erasure import DeadAges, ErasureBudget, interval_ns
from headwater.stream.store import FOLD, Store
from headwater.table.compaction import CompactionPlan, CompactionSettings, dead_rows
from headwater.table.compaction import plan as make_plan
from headwater.table.datafile import DataFile

logger = logging.getLogger(__name__)

CHECKPOINT_RATIO = 4
"""A checkpoint is due when the log is this many times as large as the last one: O(1) a message."""
LARGE_LOG = 1 << 20
PART_BYTES = 4 << 20
MOST_SEGMENTS = 64
"""A checkpoint is also due when folds have left this many segments."""


class Fold:
    """The one changer of a stream's table."""

    def __init__(self, store: Store, committer: Committer) -> None:
        self._store = store
        self._committer = committer
        self._lock = asyncio.Lock()
        """Held while the table is changed."""
        self._closed = False
        self._budget = ErasureBudget()
        self._ages = DeadAges()
        """Since when files hold removed messages."""
        self.failure: Error | None = None
        """Why the last fold failed; None if it did not."""
        self.is_tidy = False
        """Whether the last round left nothing to do until the stream changes."""
        self._limits = CompactionSettings(target_file_bytes=store.services.settings.target_file_bytes)

    def due(self, now_ns: int) -> bool:
        """Return whether the head is large or old enough to be folded, or the log to be trimmed."""
        head, settings = self._store.head, self._store.services.settings
        if not len(head):
            # Removals alone make the log grow, too.
            log = self._store.log
            return log.size_bytes >= max(LARGE_LOG, CHECKPOINT_RATIO * self._store.checkpoint_bytes)
        if head.nbytes >= settings.fold_bytes or head.messages >= settings.fold_messages:
            return True
        age_ns = now_ns - (head.first_ts or now_ns)
        # A time in the future says nothing about the age, so fold.
        return age_ns >= settings.fold_interval_s * 1e9 or age_ns < -AHEAD_NS

    @property
    def has_nothing_to_fold(self) -> bool:
        """Return whether the head is empty."""
        return not len(self._store.head)

    def needs_tidying(self) -> bool:
        """Return whether there may be something to merge, erase or unlink in a table just opened."""
        ledger, table = self._store.ledger, self._store.table
        if len(table.files) > 1 or table.has_unreferenced:
            return True
        return any(dead_rows(file, ledger.deleted, ledger.first_seq) for file in table.files)

    async def fold(self, *, force_checkpoint: bool = False) -> None:
        """Move everything that is durable now into the table."""
        meters, began_s = self._store.services.meters, time.perf_counter()
        try:
            await self._fold(force_checkpoint)
        except Error as error:
            meters.failed_folds += 1
            self.failure = error
            raise
        self.failure = None
        meters.folds.observe(time.perf_counter() - began_s)

    async def _fold(self, force_checkpoint: bool) -> None:
        async with self._lock:
            if self._closed:
                return
            store = self._store
            # A fold that fails after it has sealed a segment would leave one more at each attempt.
            await store.on_thread(store.table.require_ready)
            wants_checkpoint = (
                force_checkpoint
                or store.log.size_bytes >= CHECKPOINT_RATIO * store.checkpoint_bytes
                or store.log.segment_count >= MOST_SEGMENTS
            )
            # Removals known before the rotation are durable after it: only those may keep a message out of
            # the table, or a crash would bring it back without its payload.
            deleted, first_seq = store.ledger.deleted.copy(), store.ledger.first_seq
            segment, dumped = await self._committer.rotate(dump=wants_checkpoint)
            entries = store.head.below(segment)
            if entries:
                await self._store.change_table(self._move, entries, deleted, first_seq)
                store.head.release_through(entries[-1].last_seq)
            if dumped is not None:
                # Only the log that would be trimmed names a file that is not in the table yet.
                await store.adoptions.ended()
                async with store.trimming:
                    await store.on_thread(self._checkpoint, segment, dumped)
            await store.on_thread(store.table.maintain)

    async def close(self) -> None:
        """Return once no fold runs; start no more."""
        async with self._lock:
            self._closed = True

    def _move(self, entries: list[HeadEntry], deleted: BitMap64, first_seq: int) -> None:
        table = self._store.table
        self._store.fence.check()
        files: list[DataFile] = []
        try:
            for run in _unbroken(entries):
                parts = self._parts(run, deleted, first_seq)
                files += table.write_parts(parts, self._limits.target_file_bytes)
            self._store.fence.check()
            table.commit(add=files, transactions={FOLD: entries[-1].last_seq})
        except BaseException:
            table.discard(files)
            raise

    def _parts(self, entries: list[HeadEntry], deleted: BitMap64, first_seq: int) -> Iterator[Columns]:
        """Yield the live messages, about a row group at a time: joining more would block the event loop."""
        waiting: list[Columns] = []
        size = 0
        for entry in entries:
            columns = self._live(entry, deleted, first_seq)
            if len(columns):
                waiting.append(columns)
                size += len(columns.datas)
            if size >= PART_BYTES:
                yield concat(waiting)
                waiting, size = [], 0
        if waiting:
            yield concat(waiting)

    def _live(self, entry: HeadEntry, deleted: BitMap64, first_seq: int) -> Columns:
        assert entry.position is not None
        columns = self._store.log.read(entry.position).columns()
        mask = columns.seqs >= first_seq
        if deleted.range_cardinality(entry.first_seq, entry.last_seq + 1):
            mask &= ~np.isin(columns.seqs, members(deleted, entry.first_seq, entry.last_seq))
        return keep(columns, mask)

    def _checkpoint(self, segment: int, dumped: dict[str, Any]) -> None:
        store = self._store
        payload = encode(dumped)
        # A checkpoint of a fenced owner would name segments that its successor has trimmed.
        store.fence.check()
        # In memory there is nothing that a copy would outlive.
        write = checkpoint_copy.write_both if store.durable else checkpoint.write
        write(store.disk, store.checkpoint_path, segment, payload, store.fence.epoch, store.fence)
        store.checkpoint_bytes = len(payload)
        store.log.trim(segment)

    async def compact(self) -> bool:
        """Merge small files and erase removed messages; return whether there was anything to do."""
        async with self._lock:
            if self._closed:
                return False
            await self._committer.intact()
            ledger, table = self._store.ledger, self._store.table
            deleted, first_seq = ledger.deleted.copy(), ledger.first_seq
            if not ledger.messages:
                first_seq = ledger.last_seq + 1
            # A fold or an adoption may soon add a file there: files around its place must not become one.
            next_seq = self._store.next_in_table
            files = [f for f in table.files if next_seq is None or f.last_seq < next_seq]
            dead = {f.path: n for f in files if (n := dead_rows(f, deleted, first_seq))}
            self._budget.earn(ledger.removed_bytes, files, dead)
            plan = make_plan(files, dead, first_seq, self._limits, self._overdue(dead), self._budget.bytes)
            if plan:
                began_s = time.perf_counter()
                # Only what is durably removed may be erased.
                await self._committer.settled()
                await self._store.change_table(self._rewrite, plan, deleted, first_seq)
                self._budget.spend(plan.erasing_bytes)
                self._store.services.meters.compactions.observe(time.perf_counter() - began_s)
            return bool(plan)

    def _rewrite(self, plan: CompactionPlan, deleted: BitMap64, first_seq: int) -> None:
        """Replace each run of files in one commit; a crash between two leaves only work to do."""
        table = self._store.table
        self._store.fence.check()
        if plan.drop:
            table.commit(remove=plan.drop)
        for run in plan.rewrite:
            try:
                files = table.rewrite(run, deleted, first_seq, max_bytes=self._limits.target_file_bytes)
            except CorruptionError as error:
                # The damaged file stays, so that it can be repaired. The other files must not wait for that.
                logger.error("stream %s: %s", self._store.config.name, error)
                continue
            try:
                self._store.fence.check()
                table.commit(add=files, remove=run)
            except BaseException:
                table.discard(files)
                raise
        table.maintain()

    def _overdue(self, dead: dict[str, int]) -> set[str]:
        """Return the files whose removed messages have waited long enough to be erased."""
        return self._ages.overdue(dead, self._erase_interval_ns(), self._store.services.clock.now_ns())

    def _erase_interval_ns(self) -> float | None:
        return interval_ns(self._store.config, self._store.services.settings.erase_interval_s)

    async def tidy(self) -> None:
        """Compact, and unlink files that were replaced long enough ago."""
        self.is_tidy = False
        changed = await self.compact()
        if self._closed:
            return
        settings, clock, table = self._store.services.settings, self._store.services.clock, self._store.table
        if table.has_unreferenced:
            self._store.fence.check()
            # A file that was moved into the table's folder before a crash or a conflict is the only copy of
            # its messages. Only the log names it until the table's commit succeeds.
            adopting = [table.path_of(file) for file in self._store.adoptions.waiting]
            now_s = clock.now_ns() / 1e9
            await self._store.on_thread(table.sweep, settings.erase_grace_s, now_s, adopting)
        waits_for_age = bool(self._ages) and self._erase_interval_ns() is not None
        self.is_tidy = not (changed or waits_for_age or table.has_unreferenced)


def _unbroken(entries: list[HeadEntry]) -> Iterator[list[HeadEntry]]:
    """Yield the entries in runs without a gap: an adopted file may fill the gap."""
    run: list[HeadEntry] = []
    for entry in entries:
        if run and entry.first_seq != run[-1].last_seq + 1:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run
