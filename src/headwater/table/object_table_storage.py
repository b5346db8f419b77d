"""The files of one table in a bucket: written to the local disk first, then put under their final names.

Nothing refers to a data file before its commit, so a put that failed half-way leaves at most a file that a
sweep removes. Row groups are read by ranges and kept in a cache on the local disk.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from headwater.checksum import crc32
from headwater.disk import DIRECTORY_MODE, Disk, RealDisk
from headwater.errors import CorruptionError, DiskError
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import problem_of
from headwater.objects.guarded import GuardedObjects
from headwater.objects.object_error import ObjectError, Problem
from headwater.table import parquet
from headwater.table.object_disk import ObjectDisk
from headwater.table.output import footer_crc_of
from headwater.table.prefetch import Prefetch
from headwater.table.prefix_owner import CHECK_S
from headwater.table.range_cache import RangeCache
from headwater.table.staging import OBJECT_STAGING, STAGING, ObjectStaging
from headwater.table.stored_bytes import ByteSpan, LocalBytes, ObjectBytes, StoredBytes
from headwater.table.table_storage import DATA_FILE

logger = logging.getLogger(__name__)

SNAPSHOT = "table.snapshot"
_AT_ONCE = 8
_TAIL = struct.Struct("<QI")
"""Before the end of a file in the cache: the size of the file, and the checksum of these bytes."""
_FIRST_COMMIT = "_delta_log/00000000000000000000.json"
_RETRIES = {"max_retries": "3", "retry_timeout": "8s", "timeout": "30s", "connect_timeout": "5s"}


class ObjectTableStorage:
    """The place of a table in a bucket."""

    is_atomic = True

    def __init__(
        self,
        objects: GuardedObjects,
        address: BucketAddress,
        directory: Path,
        scratch: Path,
        cache: RangeCache,
        prefetch: Prefetch | None = None,
        require_owner: Callable[[float], None] = lambda within_s: None,
    ) -> None:
        """Take the objects below the table's address; `directory` is the local path of the table.

        `require_owner` raises if another engine has taken over since; a check within these seconds counts.
        """
        self._require_owner = require_owner
        self._objects = objects
        self._address = address
        self._directory = directory
        self._scratch = scratch
        self._cache = cache
        self._disk = ObjectDisk(objects, directory)
        self._local = RealDisk()
        self._prefetch = prefetch or Prefetch()
        self._snapshot = directory.parent / SNAPSHOT
        self.staging = ObjectStaging(objects, directory.parent / STAGING)

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def disk(self) -> Disk:
        return self._disk

    def require_ready(self) -> None:
        self._objects.require_ready(_FIRST_COMMIT)

    def require_owner(self, *, removes: bool = False) -> None:
        self._require_owner(0.0 if removes else CHECK_S)

    def prepare(self) -> None:
        self._scratch.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)

    @property
    def delta_address(self) -> str:
        return self._address.delta_url

    def delta_options(self) -> dict[str, str]:
        return self._address.delta_options() | ({} if self._address.is_local else _RETRIES)

    def refusal(self, path: Path, operation: str, error: Exception) -> DiskError:
        problem, detail = problem_of(error)
        address = f"{self._address.url}/{path.relative_to(self._directory)}"
        refused = ObjectError(address, operation, problem, detail)
        if refused.is_outage:
            self._objects.outage.failed(refused)
        return refused

    def paths(self) -> Iterator[str]:
        return (info.key for info in self._objects.list() if is_data_file(info.key))

    def save(self, snapshot: bytes) -> None:
        try:
            self._local.write_atomic(self._snapshot, snapshot)
        except DiskError as error:
            logger.warning("%s; the stream cannot be opened while its bucket is unreachable", error)
            with suppress(DiskError):
                self._local.remove(self._snapshot)  # it would be older than the table

    def saved(self) -> bytes | None:
        try:
            return self._local.read_all(self._snapshot)
        except DiskError:
            return None

    def open(self, path: str, *, uncached: bool = False) -> StoredBytes:
        if uncached:
            return ObjectBytes(self._objects, path)
        return CachedBytes(self._objects, path, self._cache, self._prefetch)

    def expect(self, path: str, ranges: Sequence[ByteSpan]) -> None:
        opened = CachedBytes(self._objects, path, self._cache, self._prefetch)
        for span in ranges:
            opened.expect(span)

    def address_of(self, path: str) -> str:
        return f"{self._address.url}/{path}"

    @property
    def volume(self) -> str:
        return f"{self._address.endpoint or ''} {self._address.url.split('/', 3)[2]}"

    def make(self, folder: str) -> None:
        return None

    def begin(self, folder: str, name: str) -> Path:
        return self._scratch / name

    def finish(self, written: Path, path: str) -> None:
        self._objects.put_file(path, written)
        CachedBytes(self._objects, path, self._cache, self._prefetch).keep(written)
        self.abandon(written)

    def abandon(self, written: Path) -> None:
        written.unlink(missing_ok=True)

    def move(self, path: str, target: str) -> None:
        self._objects.copy(path, target)
        self._objects.delete(path)

    def adopt(self, staging: Path, paths: Sequence[str]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            list(threads.map(lambda path: self._adopt(staging / Path(path).name, path), paths))
            list(threads.map(lambda path: self._discard(staging / Path(path).name), paths))

    def _adopt(self, staged: Path, path: str) -> None:
        """Return once a staged file is an object of the table, if an earlier attempt did not make it one."""
        if staged.exists():
            self._objects.put_file(path, staged)
            return
        try:
            self._objects.copy(f"{OBJECT_STAGING}/{staged.name}", path)
        except ObjectError as error:
            if error.problem is not Problem.MISSING:
                raise
            self._objects.head(path)

    def _discard(self, staged: Path) -> None:
        staged.unlink(missing_ok=True)
        self.staging.discard(staged.name)

    def remove(self, path: str) -> None:
        self._objects.delete(path)

    def remove_empty_folders(self, kept: str) -> None:
        return None

    def drop(self) -> None:
        self._disk.remove_tree(self._directory)


def is_data_file(key: str) -> bool:
    """Return whether an object is a finished file of the table, referred to or not."""
    return key.endswith(DATA_FILE) and not key.startswith("_")


class CachedBytes(ObjectBytes):
    """An object of a bucket whose ranges are kept on the local disk."""

    def __init__(self, objects: GuardedObjects, key: str, cache: RangeCache, prefetch: Prefetch) -> None:
        super().__init__(objects, key)
        self._cache = cache
        self._prefetch = prefetch

    def expect(self, span: ByteSpan) -> None:
        """Have a range fetched into the cache, unless it is there or has no room."""
        key = f"{self.name}:{span.start}:{span.length}"
        if self._cache.takes(span.length) and not self._cache.has(key):
            self._prefetch.begin(key, lambda: self._fetch(key, span))

    def keep(self, written: Path) -> None:
        """Put the file into the cache, from which it was just written, unless that would take most of it."""
        source = LocalBytes(written)
        try:
            tail, size = source.tail(self.first_tail)
            if not self._cache.takes(2 * size):
                return
            footer, _ = parquet.read_footer_bytes(source)
            self._keep_tail(self.first_tail, tail, size)
            if len(footer) > self.first_tail:
                self._keep_tail(len(footer), footer, size)
            for start, stop in parquet.read_footer(source, None).places:
                self._cache.put(f"{self.name}:{start}:{stop - start}", source.read(start, stop - start))
        except (OSError, CorruptionError):
            pass  # the bucket has it, and a reader reports damage there

    def tail(self, length: int) -> tuple[bytes, int]:
        kept = self._cache.get(f"{self.name}:tail:{length}")
        if kept is not None and len(kept) >= _TAIL.size:
            size, crc = _TAIL.unpack_from(kept)
            if crc32(kept[_TAIL.size :]) == crc:
                return kept[_TAIL.size :], size
        tail, size = super().tail(length)
        if self._is_intact(tail):
            self._keep_tail(length, tail, size)
        return tail, size

    def _is_intact(self, tail: bytes) -> bool:
        """Return whether these bytes end with the footer that the name of the file has the checksum of."""
        length = int.from_bytes(tail[-8:-4], "little") + 8
        return length <= len(tail) and crc32(tail[-length:]) == footer_crc_of(self._key)

    def _keep_tail(self, length: int, tail: bytes, size: int) -> None:
        self._cache.put(f"{self.name}:tail:{length}", _TAIL.pack(size, crc32(tail)) + tail)

    def read(self, start: int, length: int, crc: int | None = None) -> bytes:
        if crc is None:
            return super().read(start, length)
        key = f"{self.name}:{start}:{length}"
        self._prefetch.wait(key)
        kept = self._cache.get(key)
        if kept is not None and crc32(kept) == crc:
            return kept
        if kept is not None:
            self._cache.forget(key)
        return self._fetch(key, ByteSpan(start, length, crc))

    def _fetch(self, key: str, span: ByteSpan) -> bytes:
        content = super().read(*span)
        if crc32(content) == span.crc:
            self._cache.put(key, content)
        return content
