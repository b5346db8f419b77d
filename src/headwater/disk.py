"""All file access: the contract of a disk, and the real one."""

from __future__ import annotations

import os
import shutil
import threading
from collections import OrderedDict
from collections.abc import Sequence
from errno import EACCES, EMLINK, ENOSYS, ENOTSUP, EPERM, EXDEV
from pathlib import Path
from types import TracebackType
from typing import Protocol

from headwater.errors import DiskError

IOV_MAX = 1024
"""The largest number of buffers that one `writev` accepts."""
DIRECTORY_MODE, FILE_MODE = 0o750, 0o640
"""Modes of a store's directories and files, as nats-server's: its user may write, its group may read."""
UMASK = 0o027
"""The same for what libraries create; each Headwater process that writes to stores sets it once."""
OPEN_FILES = 64
"""How many files a disk keeps open for reading."""
_NO_LINKS = (EXDEV, EPERM, EMLINK, ENOTSUP, ENOSYS, EACCES)
"""Errors that mean that a hard link is impossible: another file system, or one without links."""


class AppendFile(Protocol):
    """A file that grows at its end; one thread at a time uses it."""

    @property
    def size(self) -> int:
        """Return the length of the file, counting only completed writes."""
        ...

    def write(self, buffers: Sequence[bytes]) -> None:
        """Return once all buffers are at the end of the file; on an error, any part of them may be."""
        ...

    def sync(self) -> None:
        """Return once all written data would survive a power cut, provided the directory entry does."""
        ...

    def truncate(self, length: int) -> None:
        """Return once the file has this length; it is durable after the next sync."""
        ...

    def close(self) -> None:
        """Close the file; data that was not synced stays unsynced."""
        ...


class Disk(Protocol):
    """Files, and which of their changes survive a power cut; every failure is a `DiskError`."""

    def open_append(self, path: Path) -> AppendFile:
        """Return the file, created if missing; its directory entry is durable after `sync_dir`."""
        ...

    def create_append(self, path: Path) -> AppendFile:
        """Return a new file; fail if it exists. Its directory entry is durable after `sync_dir`."""
        ...

    def read(self, path: Path, offset: int, length: int) -> bytes:
        """Return the bytes of this range, fewer at the end of the file; any thread may call it."""
        ...

    def read_all(self, path: Path) -> bytes:
        """Return the whole file."""
        ...

    def write_atomic(self, path: Path, data: bytes) -> None:
        """Return once the file durably has this content; a crash leaves the old content or the new."""
        ...

    def sync_file(self, path: Path) -> None:
        """Return once the content of the file would survive a power cut."""
        ...

    def uncache(self, path: Path) -> None:
        """Return once reads show what is on the medium, not what a failed sync left in memory."""
        ...

    def sync_dir(self, path: Path) -> None:
        """Return once every entry created, renamed or removed in the directory survives a power cut."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Return once source is renamed to target; it is durable after `sync_dir`."""
        ...

    def remove(self, path: Path) -> None:
        """Return once the file does not exist; it is durable after `sync_dir`."""
        ...

    def remove_tree(self, path: Path) -> None:
        """Return once the directory and its content do not exist; it is durable after `sync_dir`."""
        ...

    def list(self, path: Path) -> list[str]:
        """Return the names in the directory, sorted."""
        ...

    def mkdir(self, path: Path) -> None:
        """Return once the directory and its parents durably exist."""
        ...

    def file_size(self, path: Path) -> int:
        """Return the length of the file."""
        ...


class RealDisk:
    """The files of this machine; with `sync=False` (memory streams on tmpfs) syncs do nothing."""

    def __init__(self, sync: bool = True) -> None:
        self._sync = sync
        self._open_files: OrderedDict[Path, _ReadFile] = OrderedDict()
        """Files open for reading, the most recently used last."""
        self._forgotten = 0
        """How often files were removed from these, since a file may be replaced while it is opened."""
        self._lock = threading.Lock()

    def open_append(self, path: Path) -> RealAppendFile:
        self._forget(path)
        with _Doing("open", path):
            return RealAppendFile(path, self._sync)

    def create_append(self, path: Path) -> RealAppendFile:
        self._forget(path)
        with _Doing("open", path):
            return RealAppendFile(path, self._sync, os.O_EXCL)

    def read(self, path: Path, offset: int, length: int) -> bytes:
        with _Doing("read", path):
            file = self._opened(path)
            data = os.pread(file.fd, length, offset)
            if len(data) == length or not data:
                return data
            return data + _pread_rest(file.fd, length - len(data), offset + len(data))

    def read_all(self, path: Path) -> bytes:
        with _Doing("read", path):
            return path.read_bytes()

    def write_atomic(self, path: Path, data: bytes) -> None:
        temporary = path.with_name(path.name + ".tmp")
        with _Doing("write", temporary), open(temporary, "wb", buffering=0, opener=_private) as file:
            _write_all(file.fileno(), [data])
            if self._sync:
                os.fsync(file.fileno())
        self.rename(temporary, path)
        self.sync_dir(path.parent)

    def sync_file(self, path: Path) -> None:
        if self._sync:
            _fsync(path, os.O_RDONLY)

    def uncache(self, path: Path) -> None:
        # After a failed sync the kernel may keep pages as clean that never reached the medium.
        if self._sync and hasattr(os, "posix_fadvise"):
            with _Doing("read", path):
                file = _ReadFile(path)
                os.posix_fadvise(file.fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync_dir(self, path: Path) -> None:
        if self._sync:
            _fsync(path, os.O_RDONLY | os.O_DIRECTORY)

    def rename(self, source: Path, target: Path) -> None:
        with _Doing("rename", source):
            os.rename(source, target)
        self._forget(source)
        self._forget(target)

    def link(self, source: Path, target: Path) -> None:
        """Return once target has source's content, which never changes; it is durable after `sync_dir`."""
        with _Doing("link", source):
            try:
                os.link(source, target)
            except OSError as error:
                if error.errno not in _NO_LINKS:
                    raise
                shutil.copyfile(source, target)
                self.sync_file(target)

    def remove(self, path: Path) -> None:
        with _Doing("remove", path):
            path.unlink(missing_ok=True)
        self._forget(path)

    def remove_tree(self, path: Path) -> None:
        with _Doing("remove", path):
            if path.exists():
                shutil.rmtree(path)
        self._forget(path)

    def list(self, path: Path) -> list[str]:
        with _Doing("list", path):
            return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        missing = [path]
        while not missing[-1].parent.exists():
            missing.append(missing[-1].parent)
        for directory in reversed(missing):
            with _Doing("make", directory):
                directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
            # Sync also one that existed: the process that created it may have died before this sync.
            self.sync_dir(directory.parent)

    def file_size(self, path: Path) -> int:
        with _Doing("read", path):
            return path.stat().st_size

    def _opened(self, path: Path) -> _ReadFile:
        """Return the file opened for reading, from the cache of open files."""
        with self._lock:
            file = self._open_files.get(path)
            if file is not None:
                self._open_files.move_to_end(path)
                return file
            forgotten = self._forgotten
        file = _ReadFile(path)
        with self._lock:
            if self._forgotten != forgotten:
                return file  # It may have been replaced since, so it is read once and not kept.
            self._open_files[path] = file
            if len(self._open_files) > OPEN_FILES:
                self._open_files.popitem(last=False)
        return file

    def _forget(self, path: Path) -> None:
        """Close the cached files at or below this path, since another file may be created there."""
        below = f"{path}{os.sep}"
        with self._lock:
            self._forgotten += 1
            for opened in [p for p in self._open_files if p == path or str(p).startswith(below)]:
                del self._open_files[opened]


class RealAppendFile:
    """A file of this machine that grows at its end."""

    def __init__(self, path: Path, sync: bool, more_flags: int = 0) -> None:
        self._path = path
        self._sync = sync
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | more_flags
        self._fd = os.open(path, flags, FILE_MODE)
        self._size = os.fstat(self._fd).st_size

    @property
    def size(self) -> int:
        return self._size

    def write(self, buffers: Sequence[bytes]) -> None:
        with _Doing("write", self._path):
            self._size += _write_all(self._fd, buffers)

    def sync(self) -> None:
        if self._sync:
            with _Doing("sync", self._path):
                os.fdatasync(self._fd)

    def truncate(self, length: int) -> None:
        with _Doing("truncate", self._path):
            os.ftruncate(self._fd, length)
        self._size = length

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class _ReadFile:
    """An open file, closed when its last reader drops it, so that no reader uses a reused descriptor."""

    __slots__ = ("fd",)

    def __init__(self, path: Path) -> None:
        self.fd = -1
        """-1 until the file is opened."""
        self.fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        if self.fd >= 0:
            os.close(self.fd)


class _Doing:
    """A block in which an OSError becomes a DiskError that names the operation."""

    __slots__ = ("operation", "path")

    def __init__(self, operation: str, path: Path) -> None:
        self.operation = operation
        self.path = path

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise DiskError(self.path, self.operation, error.errno or 0) from error


def _private(path: str, flags: int) -> int:
    """Open a file with the mode of a store's files."""
    return os.open(path, flags, FILE_MODE)


def _write_all(fd: int, buffers: Sequence[bytes]) -> int:
    """Write every byte, however few each call accepts, and return how many there were."""
    total = 0
    for start in range(0, len(buffers), IOV_MAX):
        group: list[bytes | memoryview] = list(buffers[start : start + IOV_MAX])
        while group:
            written = os.writev(fd, group)
            total += written
            group = _unwritten(group, written)
    return total


def _unwritten(group: list[bytes | memoryview], written: int) -> list[bytes | memoryview]:
    """Return the part of the group after the written bytes."""
    for index, buffer in enumerate(group):
        if written < len(buffer):
            return [memoryview(buffer)[written:], *group[index + 1 :]]
        written -= len(buffer)
    return []


def _pread_rest(fd: int, length: int, offset: int) -> bytes:
    """Return the range, read in several calls, up to the end of the file."""
    pieces = []
    while length and (piece := os.pread(fd, length, offset)):
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return b"".join(pieces)


def _fsync(path: Path, flags: int) -> None:
    """Sync the file or directory at this path."""
    with _Doing("sync", path):
        fd = os.open(path, flags | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
