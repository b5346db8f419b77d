"""A disk whose files of a store's head are shipped to a journal: what is synced is in the journal.

The files on the disk itself are a cache that reads use. They are not synced, since every start of an engine
writes them again from the journal. Files outside the store, such as tables in a shared folder, are not
shipped; they are synced as usual.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

from headwater.disk import AppendFile, RealDisk
from headwater.journal.contents import is_at_or_below
from headwater.journal.record import ChangePiece, FileOp, parts
from headwater.journal.shipper import Shipper

LOCAL = ("table", "staging")
"""Folders of a stream that hold large files, which are not part of the head."""
_HOME_DEPTH = 2


class JournaledDisk:
    """The disk of one store."""

    def __init__(self, root: Path, shipper: Shipper, lengths: dict[str, int]) -> None:
        """`lengths` are the files that the journal holds, with their lengths."""
        self._root = root
        self._prefix = f"{root}/"
        self._shipper = shipper
        self._lengths = lengths
        """Every shipped file, with the length that was queued."""
        self._cache = RealDisk(sync=False)
        self._real = RealDisk()
        self._lock = threading.RLock()
        """Held while a change is made on the disk and queued, so that both have the same order."""
        self._images: dict[str, bytes] = {}
        """The content of databases, whose files on the disk are not what was shipped."""

    def relative(self, path: Path) -> str | None:
        """Return the path in the journal, None if the file is not shipped."""
        name = str(path)
        if not name.startswith(self._prefix):
            return None
        found = name[len(self._prefix) :]
        folders = found.split("/")
        is_local = len(folders) > _HOME_DEPTH + 1 and folders[_HOME_DEPTH] in LOCAL
        return None if is_local or folders[0].startswith(".") else found

    def open_append(self, path: Path) -> AppendFile:
        return self._opened(path, self._on(path).open_append(path))

    def create_append(self, path: Path) -> AppendFile:
        return self._opened(path, self._on(path).create_append(path))

    def _opened(self, path: Path, file: AppendFile) -> AppendFile:
        name = self.relative(path)
        if name is None:
            return file
        with self._lock:
            if name not in self._lengths:
                self.queue(parts(FileOp.WHOLE, name, 0, self._cache.read_all(path)), name, file.size)
        return JournaledFile(self, name, file)

    def read(self, path: Path, offset: int, length: int) -> bytes:
        return self._on(path).read(path, offset, length)

    def read_all(self, path: Path) -> bytes:
        return self._on(path).read_all(path)

    def write_atomic(self, path: Path, data: bytes) -> None:
        name = self.relative(path)
        if name is None:
            return self._real.write_atomic(path, data)
        with self._lock:
            self._cache.write_atomic(path, data)
            self.queue(parts(FileOp.WHOLE, name, 0, data), name, len(data))
        self.flush()

    def sync_file(self, path: Path) -> None:
        if self._on(path) is self._real:
            self._real.sync_file(path)
        else:
            self.flush()

    def sync_dir(self, path: Path) -> None:
        if self._on(path) is self._real and path != self._root:
            self._real.sync_dir(path)
        else:
            self.flush()

    def uncache(self, path: Path) -> None:
        self._on(path).uncache(path)

    def rename(self, source: Path, target: Path) -> None:
        old, new = self.relative(source), self.relative(target)
        with self._lock:
            self._on(source).rename(source, target)
            if old is not None and new is not None:
                self._rename(old, new)

    def _rename(self, old: str, new: str) -> None:
        moved = self._at_or_below(old)
        if moved:
            self._shipper.queue([ChangePiece(FileOp.RENAME, old, 0, new.encode())])
        for name in moved:
            self._lengths[new + name[len(old) :]] = self._lengths.pop(name)

    def remove(self, path: Path) -> None:
        with self._lock:
            self._on(path).remove(path)
            self._removed(path)

    def remove_tree(self, path: Path) -> None:
        with self._lock:
            self._on(path).remove_tree(path)
            self._removed(path)

    def _removed(self, path: Path) -> None:
        name = self.relative(path)
        gone = [] if name is None else self._at_or_below(name)
        if name is not None and gone:
            self._shipper.queue([ChangePiece(FileOp.REMOVE, name)])
            for each in gone:
                del self._lengths[each]

    def _at_or_below(self, name: str) -> list[str]:
        if name in self._lengths:
            return [name]
        return [each for each in self._lengths if is_at_or_below(each, name)]

    def list(self, path: Path) -> list[str]:
        return self._on(path).list(path)

    def mkdir(self, path: Path) -> None:
        self._on(path).mkdir(path)

    def file_size(self, path: Path) -> int:
        return self._on(path).file_size(path)

    def _on(self, path: Path) -> RealDisk:
        """Return the disk for a file: each keeps files open for reading, so a file must stay with one."""
        return self._real if self.relative(path) is None else self._cache

    def queue(self, pieces: Sequence[ChangePiece], name: str, length: int) -> None:
        """Queue a change after which the file has this length."""
        with self._lock:
            self._shipper.queue(pieces)
            self._lengths[name] = length

    def cut(self, name: str, file: AppendFile, length: int) -> None:
        """Truncate a file here and in the journal."""
        with self._lock:
            file.truncate(length)
            self.queue([ChangePiece(FileOp.TRUNCATE, name, length)], name, length)

    def flush(self) -> None:
        """Return once everything that was queued is durable."""
        self._shipper.flush()

    def image(self, path: Path) -> bytes:
        """Return the content of a database as the journal has it, which its file may not have any more."""
        with self._lock:
            known = self._images.get(path.name)
        return known if known is not None else path.read_bytes() if path.exists() else b""

    def ship_image(self, path: Path, pieces: Sequence[ChangePiece], image: bytes) -> None:
        """Queue the change of a database, after which its content is this image."""
        name = self.relative(path)
        assert name is not None
        with self._lock:
            self._images[name] = image
            self.queue(pieces, name, len(image))

    def rewrite(self, name: str) -> bool:
        """Queue the whole content of a file, if it still exists."""
        with self._lock:
            length = self._lengths.get(name)
            if length is None:
                return False
            image = self._images.get(name)
            data = self._cache.read(self._root / name, 0, length) if image is None else image
            assert len(data) == length, f"{name} has {len(data)} of {length} bytes"
            self.queue(parts(FileOp.WHOLE, name, 0, data), name, length)
            return True


class JournaledFile:
    """A file that grows at its end; `sync` ships what was written."""

    def __init__(self, disk: JournaledDisk, name: str, file: AppendFile) -> None:
        self._disk = disk
        self._name = name
        self._file = file
        self._written: list[bytes] = []
        """What was written since the last sync."""
        self._queued = file.size
        """Where that begins."""

    @property
    def size(self) -> int:
        return self._file.size

    def write(self, buffers: Sequence[bytes]) -> None:
        self._file.write(buffers)
        self._written += buffers

    def sync(self) -> None:
        data = b"".join(self._written)
        if data:
            pieces = parts(FileOp.WRITE, self._name, self._queued, data)
            self._written = []
            self._disk.queue(pieces, self._name, self._queued + len(data))
            self._queued += len(data)
        self._disk.flush()

    def truncate(self, length: int) -> None:
        if length < self._queued:
            self._disk.cut(self._name, self._file, length)
            self._queued, self._written = length, []
        else:
            self._file.truncate(length)
            self._written = [b"".join(self._written)[: length - self._queued]]

    def close(self) -> None:
        self._file.close()
