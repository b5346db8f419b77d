"""Declarations, stored a second time next to the data of each stream, so that a lost catalog can be rebuilt.

```
<home>/identity.json                                 the owner of the directory; never changes
<home>/declared.json                                 the stream's config, with a revision
<home>/consumers/<name>.<created>.<revision>.json    the config of each recorded consumer
<home>/unfinished                                    the stream is being created; no client was answered yet
```

All files except `unfinished` are sealed. Of the catalog's row and the file next to the data, the higher
revision is valid, unless the file says that its change replaces the row's revision: such a change never got
its row, and was never confirmed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from errno import ENOENT, ENOTDIR
from pathlib import Path
from typing import NamedTuple

import msgspec

from headwater.disk import Disk
from headwater.errors import DiskError
from headwater.model.names import directory_name
from headwater.model.sealed import SealError, seal, unseal

IDENTITY = "identity.json"
DECLARED = "declared.json"
CONSUMERS = "consumers"
UNFINISHED = "unfinished"
IDENTITY_VERSION = 2
VERSION = 1
_FILE = re.compile(r"(.+)\.(\d{1,20})\.(\d{1,10})\.json")


class Identity(msgspec.Struct, frozen=True):
    """The stream that a directory belongs to."""

    identity: str
    account: str
    name: str


class Declaration(msgspec.Struct, frozen=True, kw_only=True):
    """A stream as it was last declared."""

    store: str
    """The id of the store that it belongs to."""
    identity: str
    account: str
    name: str
    directory: str
    config: str
    created_ns: int
    revision: int
    replaces: int = 0
    """The revision that stays valid until the catalog has a row of this one; 0 once it has."""


class ConsumerDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """A consumer as it was last declared."""

    identity: str
    """The identity of its stream."""
    name: str
    config: str
    created_ns: int
    revision: int


class ConsumerFile(NamedTuple):
    """The content of the name of a consumer's file."""

    stem: str
    """The consumer's name as a file name."""
    created_ns: int
    revision: int

    def __str__(self) -> str:
        """Return the file's name."""
        return f"{self.stem}.{self.created_ns}.{self.revision}.json"

    @classmethod
    def of(cls, name: str, created_ns: int, revision: int) -> ConsumerFile:
        """Return the file of a consumer at one revision."""
        return cls(directory_name(name), created_ns, revision)


def write_identity(disk: Disk, home: Path, identity: Identity) -> None:
    """Return once the directory durably has this identity."""
    disk.write_atomic(home / IDENTITY, seal(identity, IDENTITY_VERSION))


def read_identity(disk: Disk, home: Path) -> Identity | None:
    """Return the identity of a directory, None if it has none; refuse a damaged one."""
    content = _read(disk, home / IDENTITY)
    if content is None:
        return None
    if b'"crc32"' in content:
        return unseal(content, Identity, IDENTITY_VERSION)
    # Version 0.1.0 wrote no checksum.
    try:
        return msgspec.json.decode(content, type=Identity)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise SealError(f"it is damaged: {error}") from error


def is_sealed(disk: Disk, home: Path) -> bool:
    """Return whether the identity has a checksum, which those of version 0.1.0 lack."""
    return b'"crc32"' in (_read(disk, home / IDENTITY) or b"")


def write_declaration(disk: Disk, home: Path, declared: Declaration) -> None:
    """Return once the stream's declaration is durably stored next to its data."""
    disk.write_atomic(home / DECLARED, seal(declared, VERSION))


def read_declaration(disk: Disk, home: Path) -> Declaration | None:
    """Return the declaration next to a stream's data, None if there is none; refuse a damaged one."""
    content = _read(disk, home / DECLARED)
    return None if content is None else unseal(content, Declaration, VERSION)


def write_consumer(disk: Disk, home: Path, declared: ConsumerDeclaration, old: ConsumerFile | None) -> None:
    """Return once this revision of a consumer is durably stored next to the data, replacing the old one."""
    file = ConsumerFile.of(declared.name, declared.created_ns, declared.revision)
    disk.mkdir(home / CONSUMERS)
    disk.write_atomic(home / CONSUMERS / str(file), seal(declared, VERSION))
    if old is not None and old != file:
        # A power cut may restore the old file. The higher revision is valid nevertheless.
        disk.remove(home / CONSUMERS / str(old))


def remove_consumers(disk: Disk, home: Path, files: Iterable[ConsumerFile]) -> None:
    """Return once these files are durably removed."""
    for file in files:
        disk.remove(home / CONSUMERS / str(file))
    if (home / CONSUMERS).exists():
        disk.sync_dir(home / CONSUMERS)


def read_consumer(disk: Disk, home: Path, file: ConsumerFile) -> ConsumerDeclaration:
    """Return a consumer from its file; refuse a damaged one."""
    return unseal(disk.read_all(home / CONSUMERS / str(file)), ConsumerDeclaration, VERSION)


def consumer_files(disk: Disk, home: Path) -> list[ConsumerFile]:
    """Return the files of the stream's consumers."""
    found = map(_FILE.fullmatch, _list(disk, home / CONSUMERS))
    return [ConsumerFile(match[1], int(match[2]), int(match[3])) for match in found if match]


def newest(files: list[ConsumerFile]) -> dict[str, ConsumerFile]:
    """Return the valid file of each consumer: a crash may have left its predecessor, too."""
    return {file.stem: file for file in sorted(files)}


def homes(disk: Disk, store: Path) -> Iterator[Path]:
    """Yield every stream directory in a store, of any account."""
    for account in _list(disk, store):
        for name in [] if account.startswith(".") else _list(disk, store / account):
            home = store / account / name
            if not name.startswith(".") and is_home(disk, home):
                yield home


def is_home(disk: Disk, path: Path) -> bool:
    """Return whether a directory is a stream's, by its identity or by its content."""
    return not {IDENTITY, DECLARED, "log", "table"}.isdisjoint(_list(disk, path))


def _read(disk: Disk, path: Path) -> bytes | None:
    try:
        return disk.read_all(path)
    except DiskError as error:
        if error.errno in (ENOENT, ENOTDIR):
            return None
        raise


def _list(disk: Disk, path: Path) -> list[str]:
    try:
        return disk.list(path)
    except DiskError as error:
        if error.errno in (ENOENT, ENOTDIR):
            return []
        raise
