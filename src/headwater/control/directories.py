"""The directories of an account's streams below one root: created, recognized, removed.

A stream's directory contains an `identity.json`. It is created with a name that begins with `.new-`, and
before its removal it is renamed to one that begins with `.trash-`. No stream's name results in either, so
that such directories are removed at the next open. Nothing else is removed without a record: a directory that
is `unfinished` was never reported to a client as created, and one whose identity is among the recorded
deletions was deleted. A directory that is neither and that no row names is an orphan, and is kept.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Container
from pathlib import Path
from typing import NamedTuple

from headwater.control import declaration
from headwater.control.catalog_file import REPAIR
from headwater.control.catalog_rows import StreamRow
from headwater.control.declaration import IDENTITY, UNFINISHED, Declaration, Identity
from headwater.disk import Disk
from headwater.errors import DiskError, Error
from headwater.model.names import directory_name
from headwater.model.sealed import SealError
from headwater.table.bucket_tables import BucketTables, require_local
from headwater.table.remote_table import read_remote

_NEW, _TRASH = ".new-", ".trash-"


class IdentityError(Error):
    """The directory of a declared stream is missing or belongs to another stream."""


class UnreadableIdentityError(IdentityError):
    """The disk refuses to read the identity of a directory."""


class Orphan(NamedTuple):
    """A stream's directory that no row of the catalog names."""

    path: Path
    row: StreamRow | None
    """The row in its declaration, None if that cannot be read."""


class Swept(NamedTuple):
    """The result of a sweep."""

    waiting: list[Path]
    """Renamed to trash, and to be removed now."""
    orphans: list[Orphan]


class Directories:
    """The stream directories below one root; every method blocks on the disk."""

    def __init__(self, root: Path, disk: Disk, tables: BucketTables | None = None) -> None:
        self.root = root
        self._disk = disk
        self._tables = tables
        """Where streams have their tables that are not in their directories."""
        disk.mkdir(root)

    def free_name(self, name: str, identity: str) -> str:
        """Return an unused directory name for the stream."""
        wanted = directory_name(name)
        return f"{wanted}.{identity}" if (self.root / wanted).exists() else wanted

    def make(self, row: StreamRow) -> Path:
        """Return the directory once it durably exists with its identity, marked as unfinished."""
        new = self.root / (_NEW + row.identity)
        self._disk.mkdir(new)
        declaration.write_identity(self._disk, new, Identity(row.identity, row.account, row.name))
        self._disk.write_atomic(new / UNFINISHED, b"")
        path = self.root / row.directory
        self._disk.rename(new, path)
        self._disk.sync_dir(self.root)
        return path

    def finish(self, path: Path) -> None:
        """Return once the directory is durably marked as finished: it is only removed on request."""
        if (path / UNFINISHED).exists():
            self._disk.remove(path / UNFINISHED)
            self._disk.sync_dir(path)

    def find(self, row: StreamRow) -> Path:
        """Return the directory of a declared stream, which must have its identity."""
        path = self.root / row.directory
        try:
            found = declaration.read_identity(self._disk, path)
        except SealError as error:
            raise IdentityError(f"its {path / IDENTITY} cannot be read: {error}; {REPAIR}") from error
        except DiskError as error:
            raise UnreadableIdentityError(f"its identity cannot be read: {error}; {REPAIR}") from error
        if found is None:
            raise IdentityError(f"its directory {path} is missing or has no {IDENTITY}; {REPAIR}")
        if found.identity != row.identity:
            raise IdentityError(
                f"its directory {path} belongs to {found.name!r}, identity {found.identity}; {REPAIR}"
            )
        if (found.account, found.name) != (row.account, row.name):
            raise IdentityError(f"its directory {path} is declared as that of {found.name!r}; {REPAIR}")
        return path

    def discard(self, path: Path) -> Path:
        """Return the trash name under which the directory now waits for its removal."""
        trash = self.root / f"{_TRASH}{uuid.uuid4().hex}"
        self._disk.rename(path, trash)
        self._disk.sync_dir(self.root)
        return trash

    def remove(self, trash: Path) -> None:
        """Remove a discarded directory with its content, after its table in a bucket."""
        assert trash.parent == self.root
        assert trash.name.startswith((_NEW, _TRASH))
        if self._tables is None:
            require_local(self._disk, trash)
        elif (remote := read_remote(self._disk, trash)) is not None:
            self._tables.remove(remote)
        self._disk.remove_tree(trash)

    def clear(self) -> list[Path]:
        """Discard everything, as memory starts empty, and return what waits for its removal."""
        for name in self._disk.list(self.root):
            if not name.startswith((_NEW, _TRASH)):
                self.discard(self.root / name)
        return [self.root / name for name in self._disk.list(self.root)]

    def sweep(self, declared: Collection[StreamRow], deleted: Container[str]) -> Swept:
        """Return what waits for its removal, and the orphans; only recorded deletions are discarded."""
        identities = {row.identity for row in declared}
        taken = {row.directory for row in declared}
        swept = Swept([], [])
        for name in self._disk.list(self.root):
            path = self.root / name
            if name.startswith((_NEW, _TRASH)):
                swept.waiting.append(path)
            elif declaration.is_home(self._disk, path):
                row = self.row_of(path)
                if row is not None and row.identity in identities:
                    continue
                if row is not None and (row.identity in deleted or (path / UNFINISHED).exists()):
                    swept.waiting.append(self.discard(path))
                elif row is not None or name not in taken:
                    swept.orphans.append(Orphan(path, row))
        return swept

    def row_of(self, path: Path) -> StreamRow | None:
        """Return the row in a directory's declaration, None if it cannot be read."""
        declared, identity = self._declared(path), self._identity(path)
        if declared is not None and (identity is None or identity.identity == declared.identity):
            return StreamRow.of(declared, path.name)
        if identity is None:
            return None
        return StreamRow(identity.account, identity.name, "", 0, identity.identity, path.name, 0)

    def _identity(self, path: Path) -> Identity | None:
        try:
            return declaration.read_identity(self._disk, path)
        except (SealError, DiskError):
            return None

    def _declared(self, path: Path) -> Declaration | None:
        try:
            return declaration.read_declaration(self._disk, path)
        except (SealError, DiskError):
            return None


class AccountDirectories(NamedTuple):
    """The directories of the streams of one account."""

    homes: Directories
    """With each stream's identity and declaration, and with a file stream's data."""
    in_memory: Directories
    """With the data of memory streams."""
