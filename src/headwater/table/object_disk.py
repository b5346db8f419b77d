"""The small files of a table in a bucket, behind the contract of the disk.

An object is durable once it is written and is seen whole or not at all. So syncs have nothing to do, folders
are only parts of names, and what a crash leaves behind needs no repair.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from headwater.disk import AppendFile
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects

_COMMIT = ".json"
_LOG = "_delta_log/"


class ObjectDisk:
    """Objects below one address, as the files below one path."""

    def __init__(self, objects: Objects, root: Path) -> None:
        self._objects = objects
        self._root = root

    def open_append(self, path: Path) -> AppendFile:
        raise self._unsupported(path)

    def create_append(self, path: Path) -> AppendFile:
        raise self._unsupported(path)

    def read(self, path: Path, offset: int, length: int) -> bytes:
        return self._objects.get_range(self._key(path), offset, length)

    def read_all(self, path: Path) -> bytes:
        return self._objects.get(self._key(path))

    def write_atomic(self, path: Path, data: bytes) -> None:
        """Return once the object is this data; a commit of any engine is never replaced."""
        key = self._key(path)
        if key.startswith(_LOG) and key.endswith(_COMMIT):
            create(self._objects, key, data)
        else:
            self._objects.put(key, data)

    def sync_file(self, path: Path) -> None:
        self._objects.sync(self._key(path))

    def uncache(self, path: Path) -> None:
        return None

    def sync_dir(self, path: Path) -> None:
        return None

    def rename(self, source: Path, target: Path) -> None:
        self._objects.copy(self._key(source), self._key(target))
        self._objects.delete(self._key(source))

    def remove(self, path: Path) -> None:
        self._objects.delete(self._key(path))

    def remove_tree(self, path: Path) -> None:
        for info in list(self._objects.list(self._key(path))):
            self._objects.delete(info.key)

    def list(self, path: Path) -> list[str]:
        folder = self._key(path)
        skipped = len(folder) + 1 if folder else 0
        return sorted({info.key[skipped:].partition("/")[0] for info in self._objects.list(folder)})

    def mkdir(self, path: Path) -> None:
        return None

    def file_size(self, path: Path) -> int:
        return self._objects.head(self._key(path)).size

    def _key(self, path: Path) -> str:
        inside = str(path.relative_to(self._root))
        return "" if inside == "." else inside

    def _unsupported(self, path: Path) -> ObjectError:
        return ObjectError(f"{self._objects.address}/{self._key(path)}", "append to", Problem.UNSUPPORTED)


def create(objects: Objects, key: str, data: bytes) -> None:
    """Return once a new object is this data; after an unknown outcome, check which engine wrote it."""
    try:
        objects.put_if_absent(key, data)
    except ObjectError as error:
        if not _holds(lambda: objects.get(key), data):
            raise error from None


def _holds(read: Callable[[], bytes], data: bytes) -> bool:
    try:
        return read() == data
    except ObjectError:
        return False
