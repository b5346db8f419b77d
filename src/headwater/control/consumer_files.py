"""The files of declared consumers next to their streams' data, and what refused changes left of them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headwater.control import declaration
from headwater.control.declaration import ConsumerDeclaration, ConsumerFile
from headwater.disk import Disk
from headwater.errors import DiskError

logger = logging.getLogger(__name__)


class ConsumerFiles:
    """Writes and removes the files of consumers; one that the disk keeps is removed with a later change."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._untidy: set[Path] = set()
        """Stream directories in which a consumer's file may have been left behind."""
        self._leftover: set[tuple[Path, ConsumerFile]] = set()
        """Stream directories, and files in them that refused consumers may have left behind."""

    @property
    def has_leftover(self) -> bool:
        """Return whether a file of a refused consumer may have been left behind."""
        return bool(self._leftover)

    def write(self, home: Path, declared: ConsumerDeclaration, old: ConsumerFile | None) -> None:
        """Write a consumer's declaration into a stream's directory, in place of its old file."""
        file = ConsumerFile.of(declared.name, declared.created_ns, declared.revision)
        with self._tidying(home):
            self._leftover.discard((home, file))
            declaration.write_consumer(self._disk, home, declared, old)
            if home in self._untidy:
                left = [found for found in self._files(home, file.stem) if found != file]
                declaration.remove_consumers(self._disk, home, left)

    def remove(self, home: Path, file: ConsumerFile) -> None:
        """Remove the files of a consumer; `file` is the one of its current revision."""
        with self._tidying(home):
            files = [file] if home not in self._untidy else self._files(home, file.stem)
            declaration.remove_consumers(self._disk, home, files)

    def leave_behind(self, home: Path, file: ConsumerFile) -> None:
        """Have the file of a refused declaration removed before the next change."""
        self._leftover.add((home, file))

    def remove_leftover(self) -> None:
        """Remove the files of refused consumers; one that cannot be removed is tried again later."""
        for home, file in sorted(self._leftover):
            try:
                declaration.remove_consumers(self._disk, home, [file])
            except DiskError as error:
                logger.warning("cannot remove the file of a refused consumer yet: %s", error)
            else:
                self._leftover.discard((home, file))

    def _files(self, home: Path, stem: str) -> list[ConsumerFile]:
        return [file for file in declaration.consumer_files(self._disk, home) if file.stem == stem]

    @contextmanager
    def _tidying(self, home: Path) -> Iterator[None]:
        """Remember a directory in which the disk refused a change: it may have files without a row."""
        try:
            yield
        except DiskError:
            self._untidy.add(home)
            raise
