"""The storage of one table's files: the protocol, and the implementation on the local disk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from errno import EIO
from pathlib import Path
from typing import Protocol

from headwater.disk import Disk
from headwater.errors import DiskError
from headwater.table.schema import PARTITIONS
from headwater.table.staging import STAGING, LocalStaging, Staging
from headwater.table.stored_bytes import ByteSpan, LocalBytes, StoredBytes

TEMPORARY = ".tmp"
DATA_FILE = ".parquet"


class TableStorage(Protocol):
    """The files of one table; every failure is a `DiskError`, which may be temporary.

    Data files are written once under names of their own. Paths are relative to the table.
    """

    @property
    def directory(self) -> Path:
        """Return the local directory of the table."""
        ...

    @property
    def disk(self) -> Disk:
        """Return the disk of the small files of the Delta log."""
        ...

    @property
    def is_atomic(self) -> bool:
        """Return whether a file is complete and durable as soon as it exists, so that none is ever torn."""
        ...

    def require_ready(self) -> None:
        """Raise if the storage is known to be unreachable: a change would fail."""
        ...

    def require_owner(self, *, removes: bool = False) -> None:
        """Raise if another engine is known to use the place; always ask before something is removed."""
        ...

    def prepare(self) -> None:
        """Return once the table's folder exists and contains no incomplete file."""
        ...

    @property
    def delta_address(self) -> str:
        """Return where delta-rs finds the table."""
        ...

    def delta_options(self) -> dict[str, str]:
        """Return how delta-rs reaches it; the options may hold secrets."""
        ...

    def refusal(self, path: Path, operation: str, error: Exception) -> DiskError:
        """Return the error to raise for an error of delta-rs."""
        ...

    def paths(self) -> Iterator[str]:
        """Yield every finished data file, whether a commit refers to it or not."""
        ...

    def save(self, snapshot: bytes) -> None:
        """Store the state of the table for an engine that starts while this storage is unreachable."""
        ...

    def saved(self) -> bytes | None:
        """Return the state that was last kept, None if there is none."""
        ...

    def open(self, path: str, *, uncached: bool = False) -> StoredBytes:
        """Return the bytes of a finished file; `uncached` as its place has them now."""
        ...

    def expect(self, path: str, ranges: Sequence[ByteSpan]) -> None:
        """Prepare for reads of these ranges of a file; returns at once."""
        ...

    def address_of(self, path: str) -> str:
        """Return where a transfer task finds a file."""
        ...

    @property
    def volume(self) -> str:
        """Return a name for where files can be linked, or copied by the server, without being read."""
        ...

    @property
    def staging(self) -> Staging:
        """Return where transfer tasks leave files for the table."""
        ...

    def make(self, folder: str) -> None:
        """Return once files can be finished in a folder."""
        ...

    def begin(self, folder: str, name: str) -> Path:
        """Return a path of this machine to write a new file to."""
        ...

    def finish(self, written: Path, path: str) -> None:
        """Return once a file that was written is durable under its path."""
        ...

    def abandon(self, written: Path) -> None:
        """Return once a file that will not be finished is removed."""
        ...

    def move(self, path: str, target: str) -> None:
        """Return once a file is durable under another path, and no longer under its own."""
        ...

    def adopt(self, staging: Path, paths: Sequence[str]) -> None:
        """Return once these files, which are staged under the same names, are durable here."""
        ...

    def remove(self, path: str) -> None:
        """Return once a file is removed."""
        ...

    def remove_empty_folders(self, kept: str) -> None:
        """Remove folders without files, all but one."""
        ...

    def drop(self) -> None:
        """Return once the table is removed."""
        ...


class LocalTableStorage:
    """A folder of this machine: a file is written under a temporary name, synced, and renamed."""

    is_atomic = False

    def __init__(self, directory: Path, disk: Disk, volume: str = "") -> None:
        self._directory = directory
        self._disk = disk
        self.volume = volume
        self.staging = LocalStaging(directory.parent / STAGING, disk)
        self._made: set[str] = set()
        """The folders that are known to exist durably."""

    @property
    def directory(self) -> Path:
        return self._directory

    @property
    def disk(self) -> Disk:
        return self._disk

    def require_ready(self) -> None:
        return None

    def require_owner(self, *, removes: bool = False) -> None:
        return None  # the fence of the store does that

    def prepare(self) -> None:
        self._disk.mkdir(self._directory)
        for path in list(_all_paths(self._directory, self._disk)):
            if path.endswith(TEMPORARY):
                self._disk.remove(self._directory / path)

    @property
    def delta_address(self) -> str:
        return str(self._directory)

    def delta_options(self) -> dict[str, str]:
        return {}

    def refusal(self, path: Path, operation: str, error: Exception) -> DiskError:
        return DiskError(path, operation, getattr(error, "errno", None) or EIO)

    def paths(self) -> Iterator[str]:
        return data_paths(self._directory, self._disk)

    def save(self, snapshot: bytes) -> None:
        return None

    def saved(self) -> bytes | None:
        return None

    def open(self, path: str, *, uncached: bool = False) -> StoredBytes:
        return LocalBytes(self._directory / path)

    def expect(self, path: str, ranges: Sequence[ByteSpan]) -> None:
        return None  # the system reads ahead by itself

    def address_of(self, path: str) -> str:
        return str(self._directory / path)

    def make(self, folder: str) -> None:
        # Each is synced before the next is made in it: only the last of those that are there may not be.
        if folder in self._made:
            return
        way = [self._directory / above for above in (*reversed(Path(folder).parents[:-1]), Path(folder))]
        there = sum(1 for each in way if each.exists())
        for each in way[max(there - 1, 0) :]:
            self._disk.mkdir(each)
        self._made.add(folder)

    def begin(self, folder: str, name: str) -> Path:
        self._disk.mkdir(self._directory / folder)
        return self._directory / folder / name

    def finish(self, written: Path, path: str) -> None:
        target = self._directory / path
        self._disk.sync_file(written)
        self._disk.rename(written, target)
        self._disk.sync_dir(target.parent)

    def abandon(self, written: Path) -> None:
        self._disk.remove(written)

    def move(self, path: str, target: str) -> None:
        self._disk.rename(self._directory / path, self._directory / target)
        self._disk.sync_dir((self._directory / target).parent)

    def adopt(self, staging: Path, paths: Sequence[str]) -> None:
        for folder in sorted({str(Path(path).parent) for path in paths}):
            self.make(folder)
            there = set(self._disk.list(self._directory / folder))
            for path in paths:
                name = Path(path).name
                if path == f"{folder}/{name}" and name not in there:
                    self._disk.rename(staging / name, self._directory / path)
            self._disk.sync_dir(self._directory / folder)

    def remove(self, path: str) -> None:
        self._disk.remove(self._directory / path)

    def remove_empty_folders(self, kept: str) -> None:
        for folder in reversed(list(_folders(self._directory, self._disk))):
            if folder != kept and not self._disk.list(self._directory / folder):
                self._made.discard(folder)
                self._disk.remove_tree(self._directory / folder)

    def drop(self) -> None:
        self._disk.remove_tree(self._directory)
        self._disk.sync_dir(self._directory.parent)


def data_paths(directory: Path, disk: Disk) -> Iterator[str]:
    """Yield the path of every finished data file, relative to the table."""
    return (path for path in _all_paths(directory, disk) if path.endswith(DATA_FILE))


def _all_paths(directory: Path, disk: Disk) -> Iterator[str]:
    """Yield the path of every data file, finished or not."""
    for folder in _folders(directory, disk):
        names = disk.list(directory / folder)
        yield from (f"{folder}/{name}" for name in names if name.endswith((DATA_FILE, TEMPORARY)))


def _folders(directory: Path, disk: Disk, above: str = "", depth: int = 0) -> Iterator[str]:
    """Yield the folders that may hold data files, each before those in it."""
    if depth == len(PARTITIONS):
        return
    for name in disk.list(directory / above):
        if name.startswith(f"{PARTITIONS[depth]}="):
            folder = f"{above}/{name}" if above else name
            yield folder
            yield from _folders(directory, disk, folder, depth + 1)
