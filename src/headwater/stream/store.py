"""The parts that one stream is kept in: log, table, head, ledger; opened, replayed, rolled back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from headwater.clock import Clock
from headwater.disk import Disk
from headwater.log import checkpoint
from headwater.log.batch import StoredBatch
from headwater.log.log import Log
from headwater.log.segment import Damage
from headwater.model.message import Message
from headwater.model.stream import Storage, StreamConfig
from headwater.settings import Settings
from headwater.stream import notes
from headwater.stream.admission import stored_ttl
from headwater.stream.head import Head, HeadEntry
from headwater.stream.ledger import Ledger, decode
from headwater.stream.removal import FILE_OVERHEAD, MEMORY_OVERHEAD
from headwater.stream.subjects import HISTORY_LIMIT
from headwater.stream.view import RunCache, View
from headwater.table.table import Table

FOLD = "headwater-fold"
"""The application transaction in the table that names the last sequence folded."""

_T = TypeVar("_T")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Services:
    """What the streams of an engine share."""

    settings: Settings
    clock: Clock
    file_disk: Disk
    memory_disk: Disk
    cache: RunCache
    sync_executor: Executor
    """Runs appends and syncs, which publishers wait for."""
    work_executor: Executor
    """Runs reads, folds and compaction."""
    send: Callable[[bytes], None] = lambda frames: None
    """Sends frames to nats-server."""
    domain: str = ""
    """The JetStream domain that acknowledgements name."""


class Store:
    """Everything that a stream has on disk, and the ledger that replay makes of it."""

    def __init__(self, directory: Path, config: StreamConfig, services: Services) -> None:
        memory = config.storage == Storage.MEMORY
        self.directory = directory
        self.config = config
        self.services = services
        self.durable = not memory
        self.disk = services.memory_disk if memory else services.file_disk
        self.overhead = MEMORY_OVERHEAD if memory else FILE_OVERHEAD
        self.checkpoint_path = directory / "checkpoint"
        self.table = Table.open(
            directory / "table", self.disk, compression=str(config.compression), name=config.name
        )
        taken = checkpoint.read(self.disk, self.checkpoint_path)
        self.checkpoint_bytes = len(taken.payload) if taken else 0
        self.log = Log.open(directory / "log", self.disk, from_segment=taken.segment if taken else 0)
        self.ledger: Ledger
        self.head: Head
        self.view: View
        self.reload()

    def reload(self) -> None:
        """Make ledger and head anew from checkpoint and log, which hold exactly what was made durable."""
        config = self.config
        self.ledger = Ledger(
            self.overhead,
            dedupe_window_ns=config.duplicate_window,
            history=keeps_history(config),
        )
        taken = checkpoint.read(self.disk, self.checkpoint_path)
        if taken is not None:
            self.ledger.restore(decode(taken.payload))
        elif config.first_seq > 1:
            self.ledger.skip_to(config.first_seq - 1)
        self.head = Head(self.log)
        self.view = View(self.head, self.table, self.services.cache, self.services.work_executor)
        folded = self.table.transaction(FOLD) or 0
        holes = 0
        for position, batch in self.log.replay():
            found = self._holes()
            if len(found) > holes:
                holes = len(found)
                self._account_for_loss(batch.base_seq - 1, folded)
            self._replay(batch)
            if batch.count and int(batch.seqs[-1]) > folded:
                self.head.append(HeadEntry.of(batch, position), resident=False)
        for hole in self._holes()[holes:]:
            self._account_for_loss(hole.last_seq or 0, folded)
        for damage in self.log.damage:
            logger.warning("stream %s: %s in its log", config.name, damage)

    def _holes(self) -> list[Damage]:
        """Return the damage that a crash does not explain."""
        return [damage for damage in self.log.damage if not damage.torn]

    def _replay(self, batch: StoredBatch) -> None:
        ledger = self.ledger
        noted = notes.decode(batch.notes)
        if noted.removed_everything:
            ledger.remove_everything()
        if batch.count:
            seqs = batch.seqs.tolist()
            ts = batch.ts.tolist()
            ledger.append(seqs, ts, batch.subjects, self.overhead.sizes(batch).tolist())
            if batch.with_headers.any():
                self.note_headers(seqs, ts, batch.headers)
        if batch.removed:
            ledger.remove(noted.removal(batch.removed))
        for name, change in noted.consumers.items():
            ledger.note_consumer(name, change)
        ledger.skip_to(batch.last_seq)
        assert ledger.first_seq == batch.first_seq, (ledger.first_seq, batch.first_seq)

    def note_headers(self, seqs: list[int], ts: list[int], headers: list[bytes]) -> None:
        """Have the ledger remember ids and times to live of stored messages."""
        with_ttl = self.config.allow_msg_ttl
        for seq, stamp, block in zip(seqs, ts, headers, strict=True):
            if block:
                self.ledger.note_headers(seq, stamp, block, stored_ttl(block) if with_ttl else None)

    def _account_for_loss(self, last_seq: int, folded: int) -> None:
        """Mark what a damaged batch held as lost, unless the table has it."""
        ledger = self.ledger
        seq = ledger.last_seq + 1
        while seq <= min(last_seq, folded):
            run = self.view.read_run_at(seq)
            if run is None:
                break
            rows = [row for row, number in enumerate(run.seqs.tolist()) if seq <= number <= last_seq]
            if not rows:
                break
            sizes = self.overhead.sizes(run)
            ledger.append(
                [int(run.seqs[row]) for row in rows],
                [int(run.ts[row]) for row in rows],
                [run.subjects[row] for row in rows],
                [int(sizes[row]) for row in rows],
            )
            seq = ledger.last_seq + 1
        if seq <= last_seq:
            logger.error(
                "stream %s: sequences %d to %d are lost, their bytes in the log are damaged",
                self.config.name,
                seq,
                last_seq,
            )
            ledger.record_loss(seq, last_seq)
            ledger.skip_to(last_seq)

    def read_message(self, seq: int) -> Message:
        """Return a live message; blocking."""
        run = self.view.read_run_at(seq)
        assert run is not None
        return run.message(int(run.seqs.searchsorted(seq)))

    def find_last(self, subject: bytes, upper_seq: int) -> int:
        """Return the newest live sequence of a subject that holds one, not above `upper_seq`; blocking."""
        newest = 0
        seq = self.ledger.first_seq
        # The newest is most often near the end: look at ever longer ends.
        span = 4096
        while not newest:
            start = max(seq, upper_seq - span)
            newest = self._last_between(subject, start, upper_seq)
            if start == seq:
                break
            span *= 8
        return newest

    def _last_between(self, subject: bytes, start_seq: int, stop_seq: int) -> int:
        newest = 0
        seq = start_seq
        while seq <= stop_seq:
            run = self.view.read_run_at(seq)
            if run is None:
                break
            subjects, seqs = run.subjects, run.seqs
            for row in self.ledger.live_rows(run, seq).tolist():
                if subjects[row] == subject and seqs[row] <= stop_seq:
                    newest = int(seqs[row])
            seq = int(seqs[-1]) + 1
        return newest

    async def build_history(self) -> None:
        """Have the ledger keep the sequences of each subject, found by reading the stream once."""
        history: dict[bytes, list[tuple[int, int]]] = {}
        seq = self.ledger.first_seq
        while seq <= self.ledger.last_seq:
            run = await self.view.run_at(seq)
            if run is None:
                break
            subjects, seqs, sizes = run.subjects, run.seqs, self.overhead.sizes(run)
            for row in self.ledger.live_rows(run, seq).tolist():
                history.setdefault(subjects[row], []).append((int(seqs[row]), int(sizes[row])))
            seq = int(seqs[-1]) + 1
        self.ledger.subjects.history = history

    async def on_thread(self, call: Callable[..., _T], *args: object) -> _T:
        """Return what a blocking call returns."""
        executor = self.services.work_executor
        return await asyncio.get_running_loop().run_in_executor(executor, call, *args)

    def close(self) -> None:
        """Let go of all files."""
        self.log.close()


def keeps_history(config: StreamConfig) -> bool:
    """Return whether the sequences of each subject are kept in memory."""
    return 0 < config.max_msgs_per_subject <= HISTORY_LIMIT
