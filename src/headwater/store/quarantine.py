"""The quarantine of a repair: damaged files are moved there instead of being deleted."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

from headwater.disk import Disk

FOLDER = ".quarantine"


class Quarantine:
    """A folder in the store for one repair; with `dry_run` nothing is moved."""

    def __init__(self, store: Path, disk: Disk, *, dry_run: bool = False) -> None:
        self._store = store
        self._disk = disk
        self._dry_run = dry_run
        self.folder = store / FOLDER / datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
        self.moved: list[Path] = []

    def copy(self, path: Path) -> None:
        """Keep a copy of a folder of the store here, under the same path; a missing one is left out."""
        assert self._store in path.parents
        if not path.exists():
            return
        self.moved.append(path)
        if not self._dry_run:
            target = self.folder / path.relative_to(self._store)
            self._disk.mkdir(target.parent)
            shutil.copytree(path, target)
            self._sync_tree(target)
            self._disk.sync_dir(target.parent)

    def _sync_tree(self, folder: Path) -> None:
        """Return once everything in a folder is durable: the original may be removed next."""
        for path in folder.iterdir():
            if path.is_dir():
                self._sync_tree(path)
            else:
                self._disk.sync_file(path)
        self._disk.sync_dir(folder)

    def copy_file(self, path: Path) -> None:
        """Keep a copy of a file of the store here, under the same path; one that is missing is left out."""
        assert self._store in path.parents
        if not path.exists():
            return
        self.moved.append(path)
        if not self._dry_run:
            target = self.folder / path.relative_to(self._store)
            self._disk.mkdir(target.parent)
            shutil.copyfile(path, target)
            self._disk.sync_file(target)
            self._disk.sync_dir(target.parent)

    def take(self, path: Path, *, again: bool = False) -> None:
        """Move a file or folder of the store here, under the same path; one that is missing is left out.

        With `again` it goes next to a copy that is here already.
        """
        assert self._store in path.parents
        if not path.exists():
            return
        self.moved.append(path)
        if self._dry_run:
            return
        target = self.folder / path.relative_to(self._store)
        if again and target.exists():
            # What is here is the file as it was found. The other may have been changed since.
            target = target.with_name(target.name + ".changed")
        self._disk.mkdir(target.parent)
        self._disk.rename(path, target)
        self._disk.sync_dir(target.parent)
        self._disk.sync_dir(path.parent)
