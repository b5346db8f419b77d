"""The storage of one stream: log, table, head and ledger; opened, replayed and rolled back."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from headwater.errors import CorruptionError
from headwater.fence import NO_FENCE
from headwater.log import checkpoint, checkpoint_copy, newest
from headwater.log.log import Log
from headwater.model.adopted import Adopted
from headwater.model.message import Message
from headwater.model.stream import Storage, StreamConfig
from headwater.objects.object_error import ObjectError
from headwater.stream import coverage
from headwater.stream.head import Head
from headwater.stream.ledger import Ledger, decode
from headwater.stream.live_runs import LiveRun, ReadRun, live_part, read_live_runs
from headwater.stream.missing_log import MissingLogError, had_checkpoint, missing_checkpoint
from headwater.stream.replay import Replay, keeps_history
from headwater.stream.replica.adoptions import Adoptions
from headwater.stream.retention.removal import FILE_OVERHEAD, MEMORY_OVERHEAD
from headwater.stream.services import Services
from headwater.stream.view import View
from headwater.table.bucket_tables import require_local
from headwater.table.staging import UNCLAIMED, Staging
from headwater.table.table import ConflictError, Table
from headwater.table.table_storage import LocalTableStorage, TableStorage
from headwater.threads import ThreadShare

ADOPTION = "headwater-adoption"
"""The application transaction in the table that names the last sequence of the last file adopted."""
FOLD = "headwater-fold"
"""The application transaction in the table that names the last sequence folded."""

MOST_THREADS = 3
"""Threads that may work for one stream at a time, so that a hanging disk leaves threads to other streams."""

_T = TypeVar("_T")
logger = logging.getLogger(__name__)


class Store:
    """Everything that a stream has on disk, and the ledger that replay makes of it."""

    def __init__(
        self, directory: Path, config: StreamConfig, services: Services, *, forgiving: bool = False
    ) -> None:
        """Open the parts; if `forgiving`, record as lost what otherwise makes opening fail."""
        memory = config.storage == Storage.MEMORY
        self.directory = directory
        self.config = config
        self.services = services
        self.durable = not memory
        """Whether messages survive a restart."""
        self.disk = services.memory_disk if memory else services.file_disk
        self.fence = NO_FENCE if memory else services.fence
        self.overhead = MEMORY_OVERHEAD if memory else FILE_OVERHEAD
        """Bytes that each message counts in addition to its own, as in nats-server."""
        self._threads = ThreadShare(services.work_executor, MOST_THREADS)
        """This stream's share of the threads that read and fold."""
        self.checkpoint_path = directory / "checkpoint"
        self.log_path = directory / "log"
        self.table = self._open_table_or_snapshot()
        self.forgiving = forgiving
        self.behind = ""
        """Where log and table end, if the table holds messages that the log does not know; else empty."""
        self.repaired: list[str] = []
        """What opening repaired."""
        if self.durable and directory.exists():
            self.fence.check()
            checkpoint.remove_prepared(self.disk, self.checkpoint_path, self.fence.epoch)
        taken = self._read_checkpoint()
        self.checkpoint_bytes = len(taken.payload) if taken else 0
        """The size of the last checkpoint, which decides when the next one pays."""
        start = taken.segment if taken else 0
        record = directory / newest.FILE if self.durable else None
        self.log = Log.open(self.log_path, self.disk, from_segment=start, fence=self.fence, record=record)
        if self.log.missing and not forgiving:
            raise MissingLogError(self.log_path, self.log.missing)
        self.trimming = asyncio.Lock()
        """Held while checkpoint and log are replayed, and while they are replaced and trimmed."""
        self.identity = f"{uuid4().hex[:12]}" if memory else ""
        """Distinguishes a memory stream from the one that had its name before a restart."""
        self.generation = 0
        """Changes when ledger and head are rebuilt: what was read before may have been undone."""
        self.synced_seq = 0
        """The last sequence of the stream as far as the log is synced."""
        self.durable_upstreams: dict[str, bytes] = {}
        """What is known of upstreams as far as the log is synced; only this may release data at origins."""
        self.adoptions = Adoptions()
        self._finishing = threading.Lock()
        """Held while adopted files become part of the table, which two threads may attempt."""
        self.ledger: Ledger
        self.head: Head
        self.view: View
        self.reload()
        if self.behind and not forgiving:
            raise MissingLogError(self.log_path, self.behind)
        coverage.ensure(self, FOLD, ADOPTION)
        self._sweep_staging()

    def _read_checkpoint(self) -> checkpoint.Checkpoint | None:
        """Return the checkpoint; a damaged one is replaced by its copy, or refused if there is none."""
        path, log = self.checkpoint_path, self.log_path
        try:
            found = checkpoint.read(self.disk, path)
            if found is None and self.durable and had_checkpoint(self.disk, log, self.table):
                raise missing_checkpoint(path)
            later = checkpoint_copy.successor(self.disk, path, log, found) if self.durable else None
        except CorruptionError as error:
            self.fence.check()
            taken = checkpoint_copy.restored(self.disk, path, log, self.fence)
            if taken is None and self.forgiving:
                return None  # all that log and table hold is counted again
            if taken is None:
                raise
            logger.error("stream %s: %s; using its copy, nothing is lost", self.config.name, error)
            return taken
        if later is None:
            return found
        logger.error(
            "stream %s: an engine that had lost the store replaced its checkpoint; the copy is used, and "
            "nothing is lost",
            self.config.name,
        )
        checkpoint.write(self.disk, path, *later, self.fence)
        return later

    def _sweep_staging(self) -> None:
        """Remove files that transfers left: their receipts are refused since the engine restarted."""
        self.staging.remove_begun()
        if not self.table.is_confirmed:
            return
        names = self.staging.names()
        if names and (self.forgiving or any(not damage.torn for damage in self.log.damage)):
            self._set_aside(names)
            return
        for name in names:
            self.staging.discard(name)

    def _set_aside(self, names: Sequence[str]) -> None:
        """Move staged files to a directory that nothing removes: a damaged batch may have named them."""
        self.staging.set_aside(names)
        what = f"{len(names)} staged files that its damaged log may have named are kept in {UNCLAIMED}/"
        self.repaired.append(what)
        logger.error(
            "stream %s: %s; they may hold messages that are reported as lost. What the origin still has is "
            "copied again. Read the rest with a Parquet reader, publish what is missing, and remove them",
            *(self.config.name, what),
        )

    def reload(self) -> None:
        """Rebuild ledger and head from checkpoint and log, which hold exactly what was made durable."""
        self.adopt(self.replay())
        if self.adoptions:
            self.finish_adoptions(self.ledger.last_seq)
            self.adoptions.done(self.ledger.last_seq)

    def replay(self) -> Replay:
        """Return rebuilt ledger and head; blocking. The stream uses them once they are passed to `adopt`."""
        config, services = self.config, self.services
        ledger = Ledger(
            self.overhead, dedupe_window_ns=config.duplicate_window, history=keeps_history(config)
        )
        taken = self._read_checkpoint()
        if taken is not None:
            ledger.restore(decode(taken.payload))
        elif config.first_seq:
            ledger.first_seq, ledger.last_seq = config.first_seq, config.first_seq - 1
        view = View(Head(self.log), self.table, services.cache, self._threads)
        folded, from_segment = self.table.transaction(FOLD) or 0, taken.segment if taken else 0
        replay = Replay(config, self.log, ledger, view, folded, self.forgiving, from_segment, self._complete)
        replay.run()
        return replay

    def adopt(self, replayed: Replay) -> None:
        """Use this ledger and head from now on."""
        self.ledger = replayed.ledger
        self.behind = replayed.behind
        self.view = replayed.view
        # The table may have been opened again since the replay began.
        self.view.table = self.table
        self.head = replayed.view.head
        # A fold may have been committed since the replay began.
        self.head.release_through(self.table.transaction(FOLD) or 0)
        self.generation += 1
        self.synced_seq = self.ledger.last_seq
        self.durable_upstreams = dict(self.ledger.upstreams)
        done = self.table.transaction(ADOPTION) or 0
        self.adoptions.replace([adopted for adopted in replayed.adoptions if adopted.last_seq > done])

    @property
    def durable_seq(self) -> int:
        """Return the last sequence that would survive a power cut and can be read."""
        return self.adoptions.first_seq - 1 if self.adoptions else self.synced_seq

    @property
    def next_in_table(self) -> int | None:
        """Return the first sequence that the table is still to get by a fold or an adoption, if any."""
        adopted = self.adoptions.first_seq if self.adoptions else None
        return min((seq for seq in (self.head.first_seq, adopted) if seq is not None), default=None)

    def finish_adoptions(self, last_seq: int) -> None:
        """Make files up to a sequence part of the table, all of which the log must name durably; blocking.

        Done again, it does nothing: the table's transaction says how far it is done, also if the files were
        compacted since.
        """
        self._complete(self.adoptions.through(last_seq))

    def _complete(self, adoptions: Sequence[Adopted]) -> None:
        """Make the files among these part of the table that are not yet; blocking."""
        self.fence.check()
        with self._finishing:
            done = self.table.transaction(ADOPTION) or 0
            missing = [file for file in adoptions if file.last_seq > done]
            if missing:
                self.table.adopt(self.staging.directory, missing, {ADOPTION: missing[-1].last_seq})

    @property
    def staging(self) -> Staging:
        """Return where transfer tasks leave files for the stream."""
        return self.table.staging

    def open_table(self) -> Table:
        """Return the table as it is stored; blocking."""
        # Opening removes what a crash left half written; it may be what another owner is writing by now.
        self.fence.check()
        config, storage = self.config, self._storage()
        table = Table.open_on(storage, compression=str(config.compression), name=config.name)
        table.commit_as(self.fence.epoch)
        table.keep_snapshots((FOLD, ADOPTION))
        return table

    def _open_table_or_snapshot(self) -> Table:
        """Return the table, or its last known state while its bucket is unreachable; blocking."""
        try:
            return self.open_table()
        except ObjectError as error:
            table = Table.of_snapshot(self._storage(), compression=str(self.config.compression))
            if table is None or not error.is_outage:
                raise
        logger.warning(
            "stream %s: its table is unreachable; folded messages cannot be read", self.config.name
        )
        table.commit_as(self.fence.epoch)
        table.keep_snapshots((FOLD, ADOPTION))
        return table

    def _storage(self) -> TableStorage:
        """Return where the table is kept; that of a new stream is kept in the bucket, if there is one."""
        local, tables = LocalTableStorage(self.directory / "table", self.disk), self.services.tables
        if not self.durable:
            return local
        if tables is None:
            require_local(self.disk, self.directory)
            return local
        is_new = not any((self.directory / name).exists() for name in ("log", "checkpoint", "table"))
        return tables.storage(self.disk, self.directory, is_new=is_new) or local

    async def change_table(self, change: Callable[..., None], *args: object) -> None:
        """Run a change of the table on a thread; after a conflict, open the table again."""
        try:
            await self.on_thread(change, *args)
        except ConflictError:
            self.replace_table(await self.on_thread(self.open_table))
            raise

    def replace_table(self, table: Table) -> None:
        """Continue with a table that was opened again."""
        self.table = self.view.table = table
        self.head.release_through(table.transaction(FOLD) or 0)

    def read_message_now(self, seq: int) -> Message:
        """Return a live message on the event loop; raise if its run is in a bucket and not in memory."""
        run = self.view.run_now(seq)
        assert run is not None
        return run.message(int(run.seqs.searchsorted(seq)))

    def find_last(self, subject: bytes, upper_seq: int) -> int:
        """Return the newest live sequence of a subject that holds one, not above `upper_seq`; blocking."""
        return self._find_last(subject, upper_seq, self.view.read_run_at)

    def find_last_now(self, subject: bytes, upper_seq: int) -> int:
        """Return the same on the event loop; raise if a run is in a bucket and not in memory."""
        return self._find_last(subject, upper_seq, self.view.run_now)

    def _find_last(self, subject: bytes, upper_seq: int, read: ReadRun) -> int:
        newest = 0
        seq = self.ledger.first_seq
        # The newest is most often near the end: look at ever longer ends.
        span = 4096
        while not newest:
            start = max(seq, upper_seq - span)
            newest = self._last_between(subject, start, upper_seq, read)
            if start == seq:
                break
            span *= 8
        return newest

    def _last_between(self, subject: bytes, start_seq: int, stop_seq: int, read: ReadRun) -> int:
        newest = 0
        for run, rows in read_live_runs(self.ledger, read, start_seq, stop_seq):
            subjects, seqs = run.subjects, run.seqs
            for row in rows.tolist():
                if subjects[row] == subject:
                    newest = int(seqs[row])
        return newest

    async def live_runs(self, start_seq: int, stop_seq: int | None = None) -> AsyncIterator[LiveRun]:
        """Yield the runs of a range in order, each with its live rows when the walk gets there."""
        seq = max(start_seq, self.ledger.first_seq)
        while stop_seq is None or seq <= stop_seq:
            run = await self.view.run_at(seq)
            if run is None:
                return
            yield live_part(self.ledger, run, seq, stop_seq)
            seq = int(run.seqs[-1]) + 1

    async def build_history(self) -> None:
        """Make the ledger keep the sequences of each subject, found by reading the stream once.

        If changes are undone meanwhile, what was read may have been among them. Then it begins again, unless
        the rebuilt ledger has its history already.
        """
        while self.ledger.subjects.history is None:
            generation, history = self.generation, await self._read_history()
            if generation == self.generation:
                # It also has messages that were removed during the walk.
                is_live = self.ledger.is_live
                self.ledger.subjects.history = {
                    subject: kept
                    for subject, entries in history.items()
                    if (kept := tuple([e for e in entries if is_live(e[0])]))
                }

    async def _read_history(self) -> dict[bytes, list[tuple[int, int]]]:
        """Return the sequences and sizes of the messages of each subject, up to the last one."""
        history: dict[bytes, list[tuple[int, int]]] = {}
        seq = self.ledger.first_seq
        while seq <= self.ledger.last_seq:
            known = self.ledger.last_seq
            async for run, rows in self.live_runs(seq):
                subjects, seqs, sizes = run.subjects, run.seqs, self.overhead.sizes(run)
                for row in rows.tolist():
                    history.setdefault(subjects[row], []).append((int(seqs[row]), int(sizes[row])))
                seq = int(seqs[-1]) + 1
            if known == self.ledger.last_seq:
                break  # otherwise a message arrived during the last read
        return history

    async def on_thread(self, call: Callable[..., _T], *args: object) -> _T:
        """Return what a blocking call returns."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call, *args)

    def close(self) -> None:
        """Close all files."""
        self.log.close()
