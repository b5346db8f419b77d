"""Repairs the catalog of a store from the directories of its streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from pathlib import Path

from headwater.control import declaration
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.control.declaration import CONSUMERS, DECLARED, IDENTITY, Identity
from headwater.control.reconciliation import Reconciliation
from headwater.errors import Error
from headwater.model.counted import counted
from headwater.model.sealed import SealError
from headwater.model.stream import StreamConfig
from headwater.model.subject import collides
from headwater.store.finding import Finding, Kind
from headwater.store.repair_job import RepairJob
from headwater.store.survey import CATALOG, StreamDirectory, copies, places, read_homes
from headwater.store.verify import Report
from headwater.wire.stream_json import decode_config, encode_config

REBUILT = f"{CATALOG}.rebuilt"
_SUFFIXES = ("", "-wal", "-shm", "-open")


class CatalogRepair:
    """Gives every directory its identity, and every stream its row in the catalog."""

    def __init__(self, job: RepairJob) -> None:
        self._store = job.store
        self._disk = job.disk
        self._fence = job.fence
        self._options = job.options
        self._quarantine = job.quarantine
        self._done = job.done

    def write_identities(self, before: Report) -> None:
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

    def attach_streams(self, before: Report) -> None:
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
        row = row_of(home, self._done)
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


def row_of(home: StreamDirectory, done: list[str]) -> StreamRow:
    """Return the row of the catalog for a stream; a config that is lost is reported as a line of `done`."""
    if home.declared is not None:
        return StreamRow.of(home.declared, home.path.name)
    # A stream of version 0.1.0 has its config in the catalog alone.
    config = encode_config(StreamConfig(name=home.name)).decode()
    done.append(f"{home.account}/{home.name}: its config is lost; it takes no subjects until you edit it")
    return StreamRow(home.account, home.name, config, home.path.stat().st_mtime_ns, home.id, home.path.name)


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
