"""Copies a store that no engine serves to an empty directory or to an empty prefix of a bucket.

1. The target must be empty, or hold an unfinished copy of the same store.
2. Data files that are there already are left out; everything else is written again.
3. Every file is read back and compared with the checksum of its source.
4. The copy is made usable: a directory by moving its entries into place, a prefix by its manifest.

A crash before step 4 leaves a target that no engine takes for a store; the same command continues. The source
is not changed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

from headwater.checksum import crc32
from headwater.disk import DIRECTORY_MODE, RealDisk
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
    key_of,
)
from headwater.table.bucket_tables import OWNER
from headwater.table.bucket_tables import VERSION as OWNER_VERSION
from headwater.table.remote_table import TABLE, RemoteTable
from headwater.table.remote_table import VERSION as TABLE_VERSION
from headwater.table.staging import OBJECT_STAGING, STAGING

UNFINISHED = ".copying"
"""The folder, or the object, of an unfinished copy."""
_MARKER = "store"

Advance = Callable[[int], None]
"""Is called with the bytes that were copied or compared since."""


class BucketTarget:
    """A prefix of a bucket: tables in their places, the head beside them."""

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

    @property
    def _marker(self) -> str:
        return f".headwater/{UNFINISHED}"

    def begin(self, store_id: str) -> None:
        """Return once the target is marked as an unfinished copy."""
        preflight.check(self._bucket)
        self._bucket.put(self._marker, seal(store_id, VERSION))

    def size_of(self, name: str) -> int:
        """Return the size of a file that was copied, -1 if there is none."""
        return self._sizes.get(key_of(name), -1)

    def put(self, item: CopyItem, data: bytes) -> None:
        """Return once a file is durable."""
        self._bucket.put(key_of(item.name), data)

    def read(self, name: str) -> bytes:
        """Return a file as the target has it."""
        return self._bucket.get(key_of(name))

    def finish(self, contents: StoreContents, files: list[CopiedFile]) -> None:
        """Return once the copy can be used, and holds nothing else."""
        kept = {key_of(file.name) for file in files} | {self._marker}
        for info in list(self._bucket.list()):
            if info.key not in kept:
                self._bucket.delete(info.key)
        # From here on engines of another store refuse the prefix.
        self._bucket.put(OWNER, seal(contents.store_id, OWNER_VERSION))
        self._bucket.put(MANIFEST, seal(CopyManifest(store=contents.store_id, files=files), VERSION))
        self._bucket.delete(self._marker)


class DirectoryTarget:
    """A directory, in which the copy is made in a folder first; tables may stay in the bucket."""

    def __init__(self, directory: Path, tables: Bucket | None = None) -> None:
        """With `tables` the streams refer to the tables of a copy in that bucket."""
        self._directory = directory
        self._unfinished = directory / UNFINISHED
        self._tables = tables
        self._disk = RealDisk()

    def require_usable(self, store_id: str) -> None:
        """Raise unless the target is empty, or holds an unfinished copy of this store; change nothing."""
        if self._directory.exists() and not self._directory.is_dir():
            raise CopyError(f"{self._directory} is a file: name a directory")
        there = {path.name for path in self._directory.iterdir()} if self._directory.exists() else set()
        if not there:
            return
        try:
            found = unseal((self._unfinished / _MARKER).read_bytes(), str, VERSION)
        except (OSError, SealError):
            found = ""
        if found != store_id or there != {UNFINISHED}:
            raise CopyError(f"{self._directory} is not empty: name a new directory")

    def begin(self, store_id: str) -> None:
        """Return once the target is marked as an unfinished copy."""
        self._unfinished.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        self._disk.write_atomic(self._unfinished / _MARKER, seal(store_id, VERSION))

    def size_of(self, name: str) -> int:
        """Return the size of a file that was copied, -1 if there is none."""
        path = self._path(name)
        return path.stat().st_size if path.exists() else -1

    def put(self, item: CopyItem, data: bytes) -> None:
        """Return once a file is durable."""
        path = self._path(item.name)
        path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
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
        # The catalog last: without it the directory is no store.
        for path in sorted(self._content.iterdir(), key=lambda path: path.name.startswith("catalog.db")):
            os.rename(path, self._directory / path.name)
        self._disk.sync_dir(self._directory)
        shutil.rmtree(self._unfinished)

    def _refer(self, account: str, stream: str) -> None:
        """Have a stream use the table of the copy in the bucket."""
        assert self._tables is not None
        address = self._tables.location.below(key_of(f"{TABLES}/{account}/{stream}"))
        remote = RemoteTable(address=address.url, endpoint=address.endpoint, region=address.region)
        self._disk.write_atomic(self._content / account / stream / TABLE, seal(remote, TABLE_VERSION))


CopyTarget = BucketTarget | DirectoryTarget


def copy(contents: StoreContents, target: CopyTarget, advance: Advance) -> None:
    """Return once the target is a verified copy; `contents` leaves out what is not to be copied."""
    target.require_usable(contents.store_id)
    target.begin(contents.store_id)
    files = []
    for item in contents.items:
        data = item.read()
        if item.crc is not None and crc32(data) != item.crc:
            raise CopyError(f"{item.name} is damaged, or has changed since the copy was made")
        if not (item.is_fixed and target.size_of(item.name) == len(data)):
            target.put(item, data)
        files.append(CopiedFile(item.name, len(data), crc32(data)))
        advance(len(data))
    for file in files:
        if crc32(target.read(file.name)) != file.crc:
            raise CopyError(f"{file.name} is not what was copied; run the same command again")
        advance(file.size)
    target.finish(contents, files)
