"""Copies a store that no engine serves to an empty directory or to an empty prefix of a bucket.

1. The target must be empty, or hold an unfinished copy of the same store.
2. Data files that are there already are left out; everything else is written again.
3. Every file is read back and compared with the checksum of its source. A data file that an earlier attempt
   left damaged is written again.
4. The copy is made usable: a directory by moving its entries into place, the catalog last; a prefix by its
   manifest.

A crash at any time leaves a complete copy, or a target that no engine takes for a store; then the same
command continues. The source is not changed. No engine can start in a directory during the copy. A prefix
that an engine uses, or that holds a complete copy, is not changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from headwater.checksum import crc32
from headwater.control.store_lock import LOCK, StoreLock
from headwater.disk import RealDisk
from headwater.model.sealed import SealError, seal, unseal
from headwater.objects import preflight
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.store.copy_source import (
    HEAD,
    MANIFEST,
    TABLES,
    VERSION,
    CopiedFile,
    CopyError,
    CopyItem,
    CopyManifest,
    StoreContents,
    key_in,
)
from headwater.store.survey import CATALOG
from headwater.table.bucket_tables import OWNER
from headwater.table.bucket_tables import VERSION as OWNER_VERSION
from headwater.table.prefix_owner import OWNER as PREFIX_OWNER
from headwater.table.remote_table import TABLE, RemoteTable
from headwater.table.remote_table import VERSION as TABLE_VERSION
from headwater.table.staging import OBJECT_STAGING, STAGING

UNFINISHED = ".copying"
"""The folder, or the object, of an unfinished copy."""
_MARKER = "store"
_MOVING = "moving"
"""The file that lists what is being moved into place."""

Advance = Callable[[int], None]
"""Is called with the bytes that were copied or compared since."""


class BucketTarget:
    """A prefix of a bucket: tables in their places, the head next to them."""

    def __init__(self, bucket: Bucket) -> None:
        self._bucket = bucket
        self._sizes: dict[str, int] = {}
        """By key, the objects that an earlier attempt has left."""

    def require_usable(self, store_id: str) -> None:
        """Raise unless the target is empty, or holds an unfinished copy of this store; change nothing."""
        self._sizes = {info.key: info.size for info in self._bucket.list()}
        if not self._sizes:
            return
        try:
            found = unseal(self._bucket.get(self._marker), str, VERSION)
        except (ObjectError, SealError):
            found = ""
        if found != store_id:
            raise CopyError(f"{self._bucket.address} is not empty: choose another prefix")
        self._require_unused(self._sizes)
        if MANIFEST in self._sizes:
            # Its head may have been copied to a directory since, to serve these tables.
            raise CopyError(f"{self._bucket.address} holds a complete copy: choose another prefix")

    def _require_unused(self, keys: Collection[str]) -> None:
        if PREFIX_OWNER in keys:
            raise CopyError(f"an engine uses {self._bucket.address} for its tables: choose another prefix")

    @property
    def _marker(self) -> str:
        return f".headwater/{UNFINISHED}"

    def begin(self, store_id: str) -> None:
        """Return once the target is marked as an unfinished copy."""
        preflight.check(self._bucket)
        self._bucket.put(self._marker, seal(store_id, VERSION))

    def size_of(self, name: str) -> int:
        """Return the size of a file that was copied, -1 if there is none."""
        return self._sizes.get(self._key(name), -1)

    def put(self, item: CopyItem, data: bytes) -> None:
        """Return once a file is durable."""
        self._bucket.put(self._key(item.name), data)

    def read(self, name: str) -> bytes:
        """Return a file as the target has it."""
        return self._bucket.get(self._key(name))

    def finish(self, contents: StoreContents, files: list[CopiedFile]) -> None:
        """Return once the copy can be used, and holds nothing else."""
        self.settle(contents, files)
        self._bucket.put(MANIFEST, seal(CopyManifest(store=contents.store_id, files=files), VERSION))
        self.unmark()

    def settle(self, contents: StoreContents, files: list[CopiedFile]) -> None:
        """Return once the target holds nothing but these files, and belongs to the store."""
        kept = {self._key(file.name) for file in files} | {self._marker}
        there = [info.key for info in self._bucket.list()]
        self._require_unused(there)
        for key in there:
            if key not in kept:
                self._bucket.delete(key)
        # From here on engines of another store refuse the prefix.
        self._bucket.put(OWNER, seal(contents.store_id, OWNER_VERSION))

    def unmark(self) -> None:
        """Return once the target is not marked as an unfinished copy any more."""
        self._bucket.delete(self._marker)

    def _key(self, name: str) -> str:
        return key_in(self._bucket, name)

    def end(self) -> None:
        """Do nothing: a prefix is not locked."""


class DirectoryTarget:
    """A directory, in which the copy is made in a folder first; tables may stay in the bucket."""

    def __init__(self, directory: Path, tables: Bucket | None = None) -> None:
        """With `tables` the streams refer to the tables of a copy in that bucket."""
        self._directory = directory
        self._unfinished = directory / UNFINISHED
        self._tables = tables
        self._disk = RealDisk()
        self._lock = StoreLock(directory)

    def require_usable(self, store_id: str) -> None:
        """Raise unless the target is empty, or holds an unfinished copy of this store; change nothing."""
        if self._directory.exists() and not self._directory.is_dir():
            raise CopyError(f"{self._directory} is a file: name a directory")
        there = self._names()
        if not there:
            return
        try:
            found = unseal((self._unfinished / _MARKER).read_bytes(), str, VERSION)
        except (OSError, SealError):
            found = ""
        if found != store_id or there - {UNFINISHED} - self._moving():
            raise CopyError(f"{self._directory} is not empty: name a new directory")

    def _names(self) -> set[str]:
        there = {path.name for path in self._directory.iterdir()} if self._directory.exists() else set()
        return there - {LOCK}

    def _moving(self) -> set[str]:
        """Return what an earlier attempt may have moved into place, without the catalog, which goes last."""
        try:
            return unseal((self._unfinished / _MOVING).read_bytes(), set[str], VERSION) - {CATALOG}
        except (OSError, SealError):
            return set()

    def begin(self, store_id: str) -> None:
        """Return once the target is marked as an unfinished copy, in which no engine can start."""
        self._disk.mkdir(self._directory)
        self._lock.take()
        self.require_usable(store_id)  # an engine may have been here until the lock was taken
        self._disk.mkdir(self._unfinished)
        self._disk.write_atomic(self._unfinished / _MARKER, seal(store_id, VERSION))
        for name in sorted(self._names() - {UNFINISHED}):
            os.rename(self._directory / name, self._content / name)
        self._disk.sync_dir(self._directory)

    def end(self) -> None:
        """Let engines start in the directory."""
        self._lock.release()

    def size_of(self, name: str) -> int:
        """Return the size of a file that was copied, -1 if there is none."""
        path = self._path(name)
        return path.stat().st_size if path.exists() else -1

    def put(self, item: CopyItem, data: bytes) -> None:
        """Return once a file is durable."""
        path = self._path(item.name)
        if not path.parent.exists():
            self._disk.mkdir(path.parent)
        self._disk.write_atomic(path, data)

    def read(self, name: str) -> bytes:
        """Return a file as the target has it."""
        return self._path(name).read_bytes()

    def _path(self, name: str) -> Path:
        kind, *rest = name.split("/")
        if kind == HEAD:
            return self._content.joinpath(*rest)
        account, stream, *inside = rest
        if inside[0] == OBJECT_STAGING:
            return self._content.joinpath(account, stream, STAGING, *inside[1:])
        return self._content.joinpath(account, stream, TABLE, *inside)

    @property
    def _content(self) -> Path:
        return self._unfinished / "content"

    def finish(self, contents: StoreContents, files: list[CopiedFile]) -> None:
        """Return once the copy can be used, and holds nothing else."""
        kept = {self._path(file.name) for file in files}
        for path in list(self._content.rglob("*")):
            if path.is_file() and path not in kept:
                path.unlink()
        for account, stream in contents.streams if self._tables is not None else ():
            self._refer(account, stream)
        names = sorted({path.name for path in self._content.iterdir()} - {CATALOG})
        self._disk.write_atomic(self._unfinished / _MOVING, seal(names, VERSION))
        # The catalog last, after its write-ahead log: without it the directory is no store.
        for group in (names, [CATALOG]):
            for name in group:
                os.rename(self._content / name, self._directory / name)
            self._disk.sync_dir(self._directory)
        shutil.rmtree(self._unfinished)

    def _refer(self, account: str, stream: str) -> None:
        """Have a stream use the table of the copy in the bucket."""
        assert self._tables is not None
        self._disk.write_atomic(
            self._content / account / stream / TABLE, reference(self._tables, account, stream)
        )


def reference(tables: Bucket, account: str, stream: str) -> bytes:
    """Return the file that names the table which a stream has in a copy in a bucket."""
    address = tables.location.below(key_in(tables, f"{TABLES}/{account}/{stream}"))
    remote = RemoteTable(address=address.url, endpoint=address.endpoint, region=address.region)
    return seal(remote, TABLE_VERSION)


class CopyTarget(Protocol):
    """A place that becomes a copy of a store."""

    def require_usable(self, store_id: str) -> None:
        """Raise unless the target is empty, or holds an unfinished copy of this store; change nothing."""
        ...

    def begin(self, store_id: str) -> None:
        """Return once the target is marked as an unfinished copy."""
        ...

    def size_of(self, name: str) -> int:
        """Return the size of a file that was copied, -1 if there is none."""
        ...

    def put(self, item: CopyItem, data: bytes) -> None:
        """Return once a file is durable, or will be before it is read."""
        ...

    def read(self, name: str) -> bytes:
        """Return a file as the target has it."""
        ...

    def finish(self, contents: StoreContents, files: list[CopiedFile]) -> None:
        """Return once the copy can be used, and holds nothing else."""
        ...

    def end(self) -> None:
        """Release what the target uses here."""
        ...


def copy(contents: StoreContents, target: CopyTarget, advance: Advance) -> None:
    """Return once the target is a verified copy; `contents` leaves out what is not to be copied."""
    target.require_usable(contents.store_id)
    try:
        target.begin(contents.store_id)
        files = [_copied(item, target, advance) for item in contents.items]
        for item, file in zip(contents.items, files, strict=True):
            _compare(item, file, target)
            advance(file.size)
        contents.require_unchanged()
        target.finish(contents, files)
    finally:
        target.end()


def _copied(item: CopyItem, target: CopyTarget, advance: Advance) -> CopiedFile:
    """Return a file that the target has now, or has from an earlier attempt."""
    data = _read(item)
    if not (item.is_fixed and target.size_of(item.name) == len(data)):
        target.put(item, data)
    advance(len(data))
    return CopiedFile(item.name, len(data), crc32(data))


def _read(item: CopyItem) -> bytes:
    data = item.read()
    if item.crc is not None and crc32(data) != item.crc:
        raise CopyError(f"{item.name} is damaged, or has changed since the copy was made")
    return data


def _compare(item: CopyItem, file: CopiedFile, target: CopyTarget) -> None:
    """Return if the target has what was copied; what an earlier attempt left damaged is replaced."""
    if crc32(target.read(file.name)) == file.crc:
        return
    if item.is_fixed:
        target.put(item, _read(item))
    if crc32(target.read(file.name)) != file.crc:
        raise CopyError(f"{file.name} is not what was copied; run the same command again")
