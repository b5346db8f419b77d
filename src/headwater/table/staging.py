"""Where transfer tasks leave finished files for a table until the stream's log names them.

On the disk this is a folder next to the table. In a bucket it is a prefix below the table: readers of Delta
tables ignore names that begin with an underscore, and removing the table removes this too. So every file in
the folders of a table was named by a log at some time (decision 0074).
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from headwater.disk import DIRECTORY_MODE, Disk
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects
from headwater.table.stored_bytes import LocalBytes, ObjectBytes, StoredBytes

STAGING = "staging"
OBJECT_STAGING = "_staging"
BEGUN = ".tmp"
"""Ends the name of a file that the engine has not finished."""
WRITTEN = "write-"
"""Begins the name of a file of a bulk write, which `api/bulk_writes` removes itself."""
UNCLAIMED = "unclaimed"
"""Where files are kept that a damaged log may have named; in a bucket, with an underscore before it."""


class Staging(Protocol):
    """Finished files by their names; every refusal is a `DiskError` or an `OSError`, which may heal."""

    @property
    def directory(self) -> Path:
        """Return the folder of this machine that contains the files, or a path that represents them."""
        ...

    @property
    def address(self) -> str:
        """Return where a task writes its files."""
        ...

    @property
    def is_remote(self) -> bool:
        """Return whether each access is a request to a bucket."""
        ...

    def names(self) -> Sequence[str]:
        """Return the names of all files."""
        ...

    def size(self, name: str) -> int | None:
        """Return the size of a file; None if there is no regular file of this name."""
        ...

    def open(self, name: str) -> StoredBytes:
        """Return the bytes of a file."""
        ...

    def begin(self, name: str) -> Path:
        """Return a path of this machine to which the engine itself writes a new file."""
        ...

    def finish(self, written: Path, name: str) -> None:
        """Return once a file that was written is durable under its name."""
        ...

    def abandon(self, written: Path) -> None:
        """Remove a file that was begun and will not be finished."""
        ...

    def remove_begun(self) -> None:
        """Remove the files of this machine that a crash left unfinished and `names` does not list."""
        ...

    def set_aside(self, names: Sequence[str]) -> None:
        """Return once files are durably where nothing removes them."""
        ...

    def discard(self, name: str) -> None:
        """Remove a file; one that cannot be removed now is found again by a later sweep."""
        ...


class LocalStaging:
    """A folder of this machine."""

    is_remote = False

    def __init__(self, directory: Path, disk: Disk) -> None:
        self.directory = directory
        self._disk = disk

    @property
    def address(self) -> str:
        return str(self.directory)

    def names(self) -> Sequence[str]:
        return self._disk.list(self.directory) if self.directory.exists() else []

    def size(self, name: str) -> int | None:
        try:
            found = (self.directory / name).lstat()
        except OSError:
            return None
        return found.st_size if stat.S_ISREG(found.st_mode) else None

    def open(self, name: str) -> StoredBytes:
        return LocalBytes(self.directory / name)

    def begin(self, name: str) -> Path:
        self._disk.mkdir(self.directory)
        return self.directory / name

    def finish(self, written: Path, name: str) -> None:
        self._disk.sync_file(written)
        self._disk.rename(written, self.directory / name)
        self._disk.sync_dir(self.directory)

    def abandon(self, written: Path) -> None:
        self._disk.remove(written)

    def remove_begun(self) -> None:
        return None  # all files of the folder have a name

    def set_aside(self, names: Sequence[str]) -> None:
        kept = self.directory.parent / UNCLAIMED
        self._disk.mkdir(kept)
        for name in names:
            self._disk.rename(self.directory / name, kept / name)
        self._disk.sync_dir(kept)
        self._disk.sync_dir(self.directory)

    def discard(self, name: str) -> None:
        self._disk.remove(self.directory / name)


class ObjectStaging:
    """Objects below a table in a bucket."""

    is_remote = True

    def __init__(self, objects: Objects, directory: Path) -> None:
        """Take the objects of the table; `directory` is the local path of the staged files."""
        self._objects = objects
        self.directory = directory

    @property
    def address(self) -> str:
        return f"{self._objects.address}/{OBJECT_STAGING}"

    def names(self) -> Sequence[str]:
        return [info.key.removeprefix(f"{OBJECT_STAGING}/") for info in self._objects.list(OBJECT_STAGING)]

    def size(self, name: str) -> int | None:
        try:
            return self._objects.head(f"{OBJECT_STAGING}/{name}").size
        except ObjectError as error:
            if error.problem is Problem.MISSING:
                return None
            raise

    def open(self, name: str) -> StoredBytes:
        return ObjectBytes(self._objects, f"{OBJECT_STAGING}/{name}")

    def begin(self, name: str) -> Path:
        self.directory.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
        return self.directory / name

    def finish(self, written: Path, name: str) -> None:
        self._objects.put_file(f"{OBJECT_STAGING}/{name}", written)
        self.abandon(written)

    def abandon(self, written: Path) -> None:
        written.unlink(missing_ok=True)

    def remove_begun(self) -> None:
        for begun in self.directory.glob(f"*{BEGUN}"):
            self.abandon(begun)

    def set_aside(self, names: Sequence[str]) -> None:
        for name in names:
            self._objects.copy(f"{OBJECT_STAGING}/{name}", f"_{UNCLAIMED}/{name}")
            self.discard(name)

    def discard(self, name: str) -> None:
        try:
            self._objects.delete(f"{OBJECT_STAGING}/{name}")
        except ObjectError:
            pass  # a sweep finds it
