"""A mark next to a SQLite file that is open: it shows later that the write-ahead log of the file is missing.

SQLite removes the write-ahead log when a file is closed. After a kill it must still be there. A backup that
was made without it lacks the last transactions. The mark holds the epoch of the engine that has the file
open. It is made after the first commit, which leaves the same epoch in the file. It is removed before the
file is closed.

If the log is missing and the file has an older epoch than the mark, transactions are lost. If the file has
the same epoch, another program may have closed the file, or only later transactions are lost. That is a
warning.
"""

from __future__ import annotations

import contextlib
import logging
import os
from pathlib import Path

from headwater.control.wal_file import wal_path

logger = logging.getLogger(__name__)

SUFFIX = "-open"


class OpenMark:
    """The mark of one SQLite file; `path` is that of the file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mark = path.with_name(path.name + SUFFIX)
        self._made = False
        """Whether this process has marked the file."""
        wal = wal_path(path)
        is_missing = not wal.exists() or not wal.stat().st_size
        self.left_at = _epoch(self._mark) if is_missing else 0
        """The epoch of the engine that did not close the file, if its write-ahead log is missing; else 0."""

    def problem(self, epoch: int) -> str:
        """Return what a file lacks whose newest transaction has this epoch; nothing if that is not known."""
        if not self.left_at:
            return ""
        what = f"its write-ahead log {wal_path(self._path)} is missing although the file was not closed"
        if epoch < self.left_at:
            return f"{what}, so the last transactions are lost"
        logger.warning(
            "%s: %s: if no other program has opened the file, transactions are lost", self._path, what
        )
        return ""

    def make(self, epoch: int) -> None:
        """Mark the file as open; call it after a commit, when the write-ahead log is durable."""
        if self._made or not epoch:
            return
        # On a full disk there is no mark, and a missing log is not noticed; nothing else is different.
        with contextlib.suppress(OSError):
            fd = os.open(self._mark, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
            try:
                os.write(fd, b"%d" % epoch)
                os.fsync(fd)
            finally:
                os.close(fd)
            _sync(self._mark.parent)
            self._made = True

    def remove(self, epoch: int) -> None:
        """Remove the mark if it is that of this epoch; call it before the file is closed."""
        with contextlib.suppress(OSError):
            if epoch and _epoch(self._mark) == epoch:
                self.drop()

    def drop(self) -> None:
        """Remove the mark, whichever engine made it."""
        self._mark.unlink(missing_ok=True)
        _sync(self._mark.parent)


def _epoch(mark: Path) -> int:
    """Return the epoch that a mark holds; one that cannot be read says nothing."""
    try:
        return int(mark.read_bytes())
    except (OSError, ValueError):
        return 0


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
