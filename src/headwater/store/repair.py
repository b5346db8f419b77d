"""Repairs a store that no engine serves: the catalog from the streams, streams from their files.

Nothing is deleted: what is damaged goes to a quarantine folder in the store. What is lost is recorded as
lost, so that readers see a gap with a reason, and its sequences are never used again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headwater.disk import Disk
from headwater.errors import CorruptionError, Error
from headwater.fence import NO_FENCE, Fence
from headwater.log import checkpoint, checkpoint_copy
from headwater.model.counted import counted
from headwater.model.cursor import Cursor
from headwater.model.stream import Storage, StreamConfig
from headwater.objects.bucket import Bucket
from headwater.store import stan_check
from headwater.store.bucket_quarantine import BucketQuarantine
from headwater.store.catalog_repair import CatalogRepair, row_of
from headwater.store.finding import Finding, Kind, is_below
from headwater.store.lost_state import consumer_lines, log_line, recovered, source_line
from headwater.store.quarantine import Quarantine
from headwater.store.repair_job import Options, RepairJob
from headwater.store.shadow import services
from headwater.store.survey import StreamDirectory, read_catalog, read_homes
from headwater.store.table_rebuild import Rebuilt, rebuild, rebuild_on
from headwater.store.verify import Report, verify
from headwater.stream.copied_cursors import last_copied
from headwater.stream.missing_log import MissingLogError
from headwater.stream.store import Store
from headwater.stream.stream import Stream
from headwater.table.bucket_tables import TABLE_DEPTH, BucketTables
from headwater.table.remote_table import read_remote
from headwater.table.salvage import shown
from headwater.wire.stream_json import decode_config

Progress = Callable[[str], None]
NEWER = "newer release"
"""Part of every error about a newer format; such a store is not repaired."""
WOULD = {
    Kind.TABLE: "its Delta log would be rebuilt from its data files",
    Kind.DATA: "damaged data files would go to quarantine, and their messages would be recorded as lost",
    Kind.CHECKPOINT: "its checkpoint would be replaced by the copy, or rebuilt if the copy cannot be used",
    Kind.LOG: "a new checkpoint would be written behind the damaged part of its log",
}
_REBUILDS = (Kind.TABLE, Kind.DATA)
_FORGIVEN = (Kind.TABLE, Kind.DATA, Kind.CHECKPOINT)
_FOLDED = (*_FORGIVEN, Kind.LOG)


@dataclass
class Repaired:
    """What a repair did, or with `dry_run` would do, and what is still wrong."""

    before: Report
    done: list[str] = field(default_factory=list)
    left: list[Finding] = field(default_factory=list)
    quarantine: Path | None = None


class Repair:
    """One repair of a store whose lock is held."""

    def __init__(
        self, store: Path, disk: Disk, options: Options, progress: Progress, fence: Fence = NO_FENCE
    ) -> None:
        self._store = store
        self._disk = disk
        self._options = options
        self._progress = progress
        self._fence = fence
        self._quarantine = Quarantine(store, disk, dry_run=options.dry_run)
        job = RepairJob(store, disk, fence, options, self._quarantine)
        self._done = job.done
        self._catalog = CatalogRepair(job)

    def run(self) -> Repaired:
        """Return what was done, once it is durable."""
        before = verify(self._store, self._disk, self._progress, self._options.only)
        newer = [found for found in before.problems if NEWER in found.what]
        if newer:
            raise Error(f"{newer[0].where}: {newer[0].what}; nothing was changed")
        self._catalog.write_identities(before)
        if not self._options.only or any(f.kind in (Kind.CATALOG, Kind.ORPHAN) for f in before.problems):
            self._catalog.attach_streams(before)
        self._repair_streams(before)
        if any(found.kind is Kind.STAN for found in before.problems):
            self._done += stan_check.repair(self._store, self._quarantine, self._options.dry_run)
        left = before.problems
        if not self._options.dry_run and before.problems:
            left = verify(self._store, self._disk, self._progress, self._options.only).problems
        return Repaired(before, self._done, left, self._quarantine.folder if self._quarantine.moved else None)

    def _repair_streams(self, before: Report) -> None:
        homes = read_homes(self._disk, self._store)
        wanted = {home.path: kinds for home in homes if (kinds := _kinds_in(home.path, before.problems))}
        for number, home in enumerate((home for home in homes if home.path in wanted), 1):
            name = f"{home.account}/{home.name}"
            self._progress(f"repairing {number} of {len(wanted)}: {name}")
            try:
                self._repair_stream(name, home, wanted[home.path])
            except (Error, OSError) as error:
                self._done.append(f"{name}: could not be repaired: {error}")

    def _repair_stream(self, name: str, home: StreamDirectory, kinds: set[Kind]) -> None:
        row = row_of(home, self._done)
        config, _ = decode_config(row.config.encode())
        if config.storage is Storage.MEMORY:
            return
        if self._options.dry_run:
            self._done += [f"{name}: {WOULD[kind]}" for kind in sorted(kinds)]
            return
        if kinds & set(_REBUILDS):
            rebuilt = self._rebuild(name, home.path, config.name)
            self._done.append(f"{name}: rebuilt the Delta log with {counted(len(rebuilt.files), 'file')}")
            self._done += [f"{name}: {path} is damaged, and in quarantine" for path in rebuilt.damaged]
        forgets = Kind.CHECKPOINT in kinds and self._set_aside_checkpoint(name, home.path)
        if Kind.LOG in kinds:
            # A new checkpoint trims the log, and what is damaged in it.
            self._quarantine.copy(home.path / "log")
            self._done.append(f"{name}: wrote a new checkpoint behind the damaged part of its log")
        if not forgets:
            kinds = kinds - {Kind.CHECKPOINT}
        lost, said = asyncio.run(self._fold(home.path, config, row.created_ns, kinds))
        self._done += [f"{name}: {line}" for line in said]
        if lost:
            self._done.append(f"{name}: recorded as lost: sequences {lost}")

    def _rebuild(self, name: str, home: Path, table: str) -> Rebuilt:
        """Rebuild the Delta log of a stream, on the disk or in its bucket."""
        tables, remote = self._tables(home), read_remote(self._disk, home)
        if tables is None or remote is None:
            return rebuild(home, self._disk, table, self._quarantine)
        # An engine that uses the same prefix with a copy of this store ends before its next change.
        tables.claim(read_catalog(self._store).store_id, self._fence.epoch)
        storage = tables.storage(self._disk, home, is_new=False)
        assert storage is not None
        aside = BucketQuarantine(Bucket(remote.bucket))
        rebuilt = rebuild_on(storage, home, self._disk, table, aside.take)
        self._done.append(f"{name}: its old Delta log and damaged files are in {aside.address}")
        return rebuilt

    def _set_aside_checkpoint(self, name: str, home: Path) -> bool:
        """Have a damaged checkpoint replaced by its copy, or else removed; return whether it is lost."""
        path = home / "checkpoint"
        copied = checkpoint_copy.copy_path(path)
        if _is_readable(self._disk, path):
            self._quarantine.copy_file(copied)
            self._done.append(f"{name}: the copy of its checkpoint was damaged; wrote both again")
            return False
        if checkpoint_copy.usable(self._disk, path, home / "log") is not None:
            self._quarantine.copy_file(path)
            self._done.append(f"{name}: its checkpoint was damaged; its copy is used, and nothing is lost")
            return False
        # Both stay until new ones take their place: a stream without a checkpoint looks like a new one.
        self._quarantine.copy_file(path)
        self._quarantine.copy_file(copied)
        self._done.append(
            f"{name}: neither its checkpoint nor the copy can be used; rebuilt its state from log and table."
            " Messages that were deleted and not erased yet may be back"
        )
        return True

    async def _fold(
        self, directory: Path, config: StreamConfig, created_ns: int, kinds: set[Kind]
    ) -> tuple[str, list[str]]:
        """Open a stream, record what it lost, and write a new checkpoint; return what it lost and forgot."""
        with services(self._fence, self._tables(directory)) as shared:
            forgiving, said = bool(kinds & set(_FORGIVEN)), []
            try:
                store = await asyncio.to_thread(Store, directory, config, shared, forgiving=forgiving)
            except MissingLogError:
                store = await asyncio.to_thread(Store, directory, config, shared, forgiving=True)
                said.append(log_line(store.ledger.last_seq))
            lost = shown(store.ledger.lost)
            stream = Stream(config, created_ns, store)
            try:
                if Kind.CHECKPOINT in kinds:
                    said += await self._forget(stream, store)
                await stream.checkpoint()
            finally:
                await stream.close()
            return lost, said

    def _tables(self, home: Path) -> BucketTables | None:
        """Return the bucket that has the table of a stream, None if it is on the disk."""
        remote = read_remote(self._disk, home)
        if remote is None:
            return None
        return BucketTables(remote.bucket.above(TABLE_DEPTH), self._store, 0)

    async def _forget(self, stream: Stream, store: Store) -> list[str]:
        """Recover cursors from the messages, and forget consumers; return what that means for each."""
        # The log has changes of their states, and the states themselves were in the checkpoint.
        store.ledger.consumers.clear()
        said = consumer_lines(self._disk, store.directory)
        config = store.config
        missing = [s for s in config.sources if s.index_name not in store.ledger.upstreams]
        copied: dict[str, Cursor] = {}
        if missing:
            async for part in stream.reading.scan(0):
                copied |= last_copied(message.headers for message in part)
        for source in missing:
            cursor = recovered(source, config, copied, not store.ledger.last_seq)
            store.ledger.upstreams[source.index_name] = cursor.encode()
            said.append(source_line(source, cursor, copied))
        if config.mirror is not None:
            said.append(f"mirror of {config.mirror.name!r}: it is copied from {store.ledger.last_seq + 1} on")
        store.durable_upstreams = dict(store.ledger.upstreams)
        return said


def _kinds_in(home: Path, problems: list[Finding]) -> set[Kind]:
    """Return what is wrong with the stream in a directory; another directory may have one of its name."""
    return {found.kind for found in problems if found.kind in _FOLDED and is_below(found.where, home)}


def _is_readable(disk: Disk, path: Path) -> bool:
    try:
        return checkpoint.read(disk, path) is not None
    except CorruptionError:
        return False
