"""The directories of an account's streams under one root: made whole, recognised, thrown away.

A directory of ours bears an `identity.json`. It is made under a name that begins with `.new-` and thrown away
under one that begins with `.trash-`; no stream's name gives either, so what bears them is swept at the next
open.
"""

from __future__ import annotations

import uuid
from collections.abc import Container
from pathlib import Path

import msgspec

from headwater.control.catalog import StreamRow
from headwater.disk import Disk
from headwater.errors import DiskError, Error
from headwater.model.names import directory_name

IDENTITY = "identity.json"
_NEW, _TRASH = ".new-", ".trash-"


class IdentityError(Error):
    """The directory of a declared stream is missing or belongs to another stream."""


class Identity(msgspec.Struct, frozen=True):
    """Whose directory it is."""

    identity: str
    account: str
    name: str
    version: int = 1


class Directories:
    """The streams' directories below one root; every method blocks on the disk."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self.root = root
        self._disk = disk
        disk.mkdir(root)

    def free_name(self, name: str, identity: str) -> str:
        """Return a directory name for the stream that nothing bears yet."""
        wanted = directory_name(name)
        return f"{wanted}.{identity}" if (self.root / wanted).exists() else wanted

    def make(self, row: StreamRow) -> Path:
        """Return the stream's directory once it durably exists and bears its identity."""
        new = self.root / (_NEW + row.identity)
        self._disk.mkdir(new)
        identity = Identity(row.identity, row.account, row.name)
        self._disk.write_atomic(new / IDENTITY, msgspec.json.encode(identity))
        path = self.root / row.directory
        self._disk.rename(new, path)
        self._disk.sync_dir(self.root)
        return path

    def find(self, row: StreamRow) -> Path:
        """Return the directory of a declared stream, which must bear its identity."""
        path = self.root / row.directory
        found = self._identity(path)
        if found is None:
            raise IdentityError(f"its directory {path} is missing or has no readable {IDENTITY}")
        if found.identity != row.identity:
            raise IdentityError(f"its directory {path} belongs to {found.name!r}, identity {found.identity}")
        return path

    def discard(self, path: Path) -> Path:
        """Return the name under which the directory now waits to be removed."""
        trash = self.root / f"{_TRASH}{uuid.uuid4().hex}"
        self._disk.rename(path, trash)
        self._disk.sync_dir(self.root)
        return trash

    def remove(self, trash: Path) -> None:
        """Remove a discarded directory with all it holds."""
        assert trash.parent == self.root
        assert trash.name.startswith((_NEW, _TRASH))
        self._disk.remove_tree(trash)

    def sweep(self, declared: Container[str]) -> list[Path]:
        """Return what waits to be removed, after discarding directories of ours that nobody declares."""
        waiting = []
        for name in self._disk.list(self.root):
            path = self.root / name
            if name.startswith((_NEW, _TRASH)):
                waiting.append(path)
            elif (found := self._identity(path)) is not None and found.identity not in declared:
                waiting.append(self.discard(path))
        return waiting

    def _identity(self, path: Path) -> Identity | None:
        try:
            return msgspec.json.decode(self._disk.read_all(path / IDENTITY), type=Identity)
        except (DiskError, msgspec.DecodeError):
            return None
