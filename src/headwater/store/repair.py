"""Repairs a store that no engine serves: the catalog from the streams, streams from their files.

Nothing is deleted: what is damaged goes to a quarantine folder in the store. What is lost is recorded as
lost, so that readers see a gap with a reason, and its sequences are never used again.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

from headwater.control import declaration
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.control.declaration import CONSUMERS, DECLARED, IDENTITY, Identity
from headwater.control.reconciliation import Reconciliation
from headwater.disk import Disk
from headwater.errors import CorruptionError, Error
from headwater.fence import NO_FENCE, Fence
from headwater.log import checkpoint, checkpoint_copy
from headwater.model.counted import counted
from headwater.model.cursor import Cursor
from headwater.model.sealed import SealError
from headwater.model.stream import Storage, StreamConfig
from headwater.model.subject import collides
from headwater.objects.bucket import Bucket
from headwater.store import stan_check
from headwater.store.bucket_quarantine import BucketQuarantine
from headwater.store.finding import Finding, Kind, is_below
from headwater.store.lost_state import consumer_lines, log_line, recovered, source_line
from headwater.store.quarantine import Quarantine
from headwater.store.shadow import services
from headwater.store.survey import CATALOG, StreamDirectory, copies, places, read_catalog, read_homes
from headwater.store.table_rebuild import Rebuilt, rebuild, rebuild_on
from headwater.store.verify import Report, verify
from headwater.stream.copied_cursors import last_copied
from headwater.stream.missing_log import MissingLogError
from headwater.stream.store import Store
from headwater.stream.stream import Stream
from headwater.table.bucket_tables import TABLE_DEPTH, BucketTables
from headwater.table.remote_table import read_remote
from headwater.table.salvage import shown
from headwater.wire.stream_json import decode_config, encode_config

Progress = Callable[[str], None]
NEWER = "newer release"
"""Part of every error about a newer format; such a store is not repaired."""
REBUILT = f"{CATALOG}.rebuilt"
_SUFFIXES = ("", "-wal", "-shm", "-open")
WOULD = {
    Kind.TABLE: "its Delta log would be rebuilt from its data files",
    Kind.DATA: "damaged data files would go to quarantine, and their messages would be recorded as lost",
    Kind.CHECKPOINT: "its checkpoint would be replaced by the copy, or rebuilt if the copy cannot be used",
    Kind.LOG: "a new checkpoint would be written behind the damaged part of its log",
}
_REBUILDS = (Kind.TABLE, Kind.DATA)
_FORGIVEN = (Kind.TABLE, Kind.DATA, Kind.CHECKPOINT)
_FOLDED = (*_FORGIVEN, Kind.LOG)


@dataclass(frozen=True)
class Options:
    """What a repair may do."""

    dry_run: bool = False
    forget_missing: bool = False
    """Forget streams whose directories are missing."""
    only: str = ""


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
        self._done: list[str] = []

    def run(self) -> Repaired:
        """Return what was done, once it is durable."""
        before = verify(self._store, self._disk, self._progress, self._options.only)
        newer = [found for found in before.problems if NEWER in found.what]
        if newer:
            raise Error(f"{newer[0].where}: {newer[0].what}; nothing was changed")
        self._repair_homes(before)
        if not self._options.only or any(f.kind in (Kind.CATALOG, Kind.ORPHAN) for f in before.problems):
            self._repair_catalog(before)
        self._repair_streams(before)
        if any(found.kind is Kind.STAN for found in before.problems):
            self._done += stan_check.repair(self._store, self._quarantine, self._options.dry_run)
        left = before.problems
        if not self._options.dry_run and before.problems:
            left = verify(self._store, self._disk, self._progress, self._options.only).problems
        return Repaired(before, self._done, left, self._quarantine.folder if self._quarantine.moved else None)

    def _repair_homes(self, before: Report) -> None:
        """Write missing identities of directories, as far as they are known."""
        if not any(found.kind is Kind.IDENTITY for found in before.problems):
            return
        for home in read_homes(self._disk, self._store):
            if home.identity is None and home.declared is not None:
                declared = home.declared
                self._done.append(f"{home.path}: wrote {IDENTITY} from {DECLARED}")
                self._quarantine.take(home.path / IDENTITY)
                if not self._options.dry_run:
                    identity = Identity(declared.identity, declared.account, declared.name)
                    declaration.write_identity(self._disk, home.path, identity)

    def _repair_catalog(self, before: Report) -> None:
        """Add every stream of the store to the catalog."""
        kinds = {found.kind for found in before.problems}
        homes = [home for home in read_homes(self._disk, self._store) if not home.is_unfinished]
        if Kind.CATALOG in kinds:
            would = "would be " if self._options.dry_run else ""
            self._done.append(f"{self._store / CATALOG}: {would}rebuilt from {counted(len(homes), 'stream')}")
        elif not kinds & {Kind.ORPHAN, Kind.MOVED, Kind.NO_HOME, Kind.IDENTITY, Kind.DECLARATION}:
            return
        if self._options.dry_run:
            self._done += [
                f"{found.stream}: would be attached" for found in before.problems if _is_orphan(found)
            ]
            return
        if Kind.CATALOG in kinds:
            self._rebuild_catalog(homes)
            return
        catalog = Catalog(self._store / CATALOG, self._disk, self._fence)
        try:
            self._attach_all(catalog, homes)
        finally:
            catalog.close()

    def _rebuild_catalog(self, homes: list[StreamDirectory]) -> None:
        """Replace the catalog once a new one has the id of the store and every stream.

        A crash leaves the old catalog or none, so that the next repair begins again.
        """
        for suffix in _SUFFIXES:
            self._disk.remove(self._store / f"{REBUILT}{suffix}")
        catalog = Catalog(self._store / REBUILT, self._disk, self._fence, over_streams=True)
        try:
            if ids := Counter(h.declared.store for h in homes if h.declared):
                catalog.adopt_id(ids.most_common(1)[0][0])
            self._attach_all(catalog, homes)
        finally:
            catalog.close()
        for suffix in _SUFFIXES:
            self._quarantine.take(self._store / f"{CATALOG}{suffix}")
        self._disk.rename(self._store / REBUILT, self._store / CATALOG)
        self._disk.sync_dir(self._store)

    def _attach_all(self, catalog: Catalog, homes: list[StreamDirectory]) -> None:
        rows = [row for account in catalog.accounts() for row in catalog.streams(account)]
        by_id = {row.identity: row for row in rows}
        there = {home.id for home in homes}
        copied = [home for home, _ in copies(homes, places(rows, self._store))]
        # Of two directories with one identity, the copy is the one whose declaration names another place.
        homes = sorted((home for home in homes if home not in copied), key=lambda home: not home.is_in_place)
        self._forget_missing(catalog, rows, homes, there)
        unknown = {home.path for home in homes if not home.id}
        for home in homes:
            self._set_aside_consumers(home)
            row = by_id.get(home.id)
            if row is not None:
                if row.home(self._store) != home.path:
                    catalog.replace(_at(row, home.path.name))
                    self._done.append(f"{row.account}/{row.name}: the catalog names {home.path} now")
                Reconciliation(catalog, self._disk).settle(_at(row, home.path.name), home.path)
            elif home.id and home.id not in catalog.deletions():
                self._attach(catalog, home, unknown)
            elif not home.id:
                self._adopt_damaged(catalog, home, rows)

    def _set_aside_consumers(self, home: StreamDirectory) -> None:
        """Move damaged consumer files away; the catalog writes them again."""
        for file in declaration.consumer_files(self._disk, home.path):
            try:
                declaration.read_consumer(self._disk, home.path, file)
            except SealError:
                self._quarantine.take(home.path / CONSUMERS / str(file))
                self._done.append(
                    f"{home.account}/{home.name}: consumers/{file} is damaged, and in quarantine"
                )

    def _forget_missing(
        self, catalog: Catalog, rows: list[StreamRow], homes: list[StreamDirectory], there: set[str]
    ) -> None:
        """Remove streams without a directory if requested, or if another stream has their name."""
        names = {(home.account, home.name) for home in homes if home.id}
        paths = {home.path for home in homes}
        for row in rows:
            if self._options.only not in ("", f"{row.account}/{row.name}"):
                continue
            if row.identity in there or (
                row.home(self._store) in paths and (row.account, row.name) not in names
            ):
                continue
            if self._options.forget_missing or (row.account, row.name) in names:
                catalog.delete(row.account, row.name)
                self._done.append(
                    f"{row.account}/{row.name}: forgot identity {row.identity}, which has no files"
                )

    def _attach(self, catalog: Catalog, home: StreamDirectory, unknown: Collection[Path]) -> None:
        """Add a stream to the catalog."""
        row = self._row(home)
        named = f"{row.account}/{row.name}"
        if home.place in unknown:
            # Its messages may be newer than those of this directory.
            self._done.append(
                f"{named}: NOT attached: {home.path} may be a copy of {home.place}, which has no identity."
                f" If so, copy {IDENTITY} and {DECLARED} there; else move {home.place} out of the store"
            )
            return
        others = catalog.streams(row.account)
        if any(other.name == row.name for other in others):
            self._done.append(f"{named}: NOT attached: {home.path} is a second stream of this name")
            return
        if row.home(self._store) != home.path:
            self._done.append(f"{named}: NOT attached: {home.path} is not in the directory of its account")
            return
        overlapping = [other.name for other in others if _overlap(row, other)]
        if overlapping:
            self._done.append(f"{named}: NOT attached: its subjects overlap with those of {overlapping[0]}")
            return
        catalog.create(row)
        Reconciliation(catalog, self._disk).settle(row, home.path)
        count = len(catalog.consumers(row.account, row.name))
        self._done.append(f"{named}: attached with {counted(count, 'consumer')}")

    def _row(self, home: StreamDirectory) -> StreamRow:
        if home.declared is not None:
            return StreamRow.of(home.declared, home.path.name)
        # A stream of version 0.1.0 has its config in the catalog alone.
        config = encode_config(StreamConfig(name=home.name)).decode()
        self._done.append(
            f"{home.account}/{home.name}: its config is lost; it takes no subjects until you edit it"
        )
        return StreamRow(
            home.account, home.name, config, home.path.stat().st_mtime_ns, home.id, home.path.name
        )

    def _adopt_damaged(self, catalog: Catalog, home: StreamDirectory, rows: list[StreamRow]) -> None:
        """Attach a directory without an identity to the stream that the catalog has at this path."""
        row = next((row for row in rows if row.home(self._store) == home.path), None)
        if row is None:
            self._done.append(f"{home.path}: NOT attached: its stream is unknown")
            return
        self._quarantine.take(home.path / IDENTITY)
        self._quarantine.take(home.path / DECLARED)
        declaration.write_identity(self._disk, home.path, Identity(row.identity, row.account, row.name))
        Reconciliation(catalog, self._disk).settle(row, home.path)
        self._done.append(f"{row.account}/{row.name}: wrote {IDENTITY} from the catalog")

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
        row = self._row(home)
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


def _at(row: StreamRow, directory: str) -> StreamRow:
    return StreamRow(row.account, row.name, row.config, row.created_ns, row.identity, directory, row.revision)


def _overlap(row: StreamRow, other: StreamRow) -> bool:
    try:
        ours, theirs = decode_config(row.config.encode())[0], decode_config(other.config.encode())[0]
    except Error:
        return False
    return any(collides(one, two) for one in ours.subjects for two in theirs.subjects)


def _is_orphan(found: Finding) -> bool:
    return found.kind is Kind.ORPHAN
