"""The files that transfer tasks leave in a target's staging directory: found by name, checked, removed.

A receipt may only name regular files of the target's own staging directory. They must be complete, and match
the sums of the receipt.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from headwater.errors import CorruptionError, Error
from headwater.model.adopted import Adopted
from headwater.stream.stream import Stream
from headwater.table import parquet
from headwater.table.output import footer_crc_of
from headwater.threads import on_thread

STAGING = "staging"
_NAME = re.compile(r"[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,254}")


class StagedFileError(Error):
    """A receipt names a file that is not a staged file of its target, or that does not match the receipt."""


def staged_path(staging: Path, name: str) -> Path:
    """Return the path of a staged file: a regular file of the directory itself, given by its name."""
    if not _NAME.fullmatch(name):
        raise StagedFileError(f"{name!r} is not the name of a staged file")
    path = staging / name
    try:
        mode = path.lstat().st_mode
    except OSError:
        raise StagedFileError(f"{name} is not among the staged files") from None
    if not stat.S_ISREG(mode):
        raise StagedFileError(f"{name} is not a regular file")
    return path


def check_adopted(staging: Path, adopted: Sequence[Adopted]) -> None:
    """Refuse files that are missing or do not match their sums; blocking."""
    for file in adopted:
        path = staged_path(staging, file.name)
        size = path.stat().st_size
        if size != file.size_bytes:
            raise StagedFileError(f"{file.name} has {size} bytes, not {file.size_bytes}")
        try:
            footer = parquet.read_footer(path, footer_crc_of(file.name))
        except CorruptionError as error:
            raise StagedFileError(str(error)) from None
        found = footer.metadata.num_rows, footer.bounds[0][0], footer.bounds[-1][1]
        if found != (file.rows, file.first_offset, file.last_offset):
            raise StagedFileError(f"{file.name} contains other messages than its receipt says")


async def remove_staged(target: Stream, names: Iterable[str]) -> None:
    """Remove files from a target's staging directory that its log does not name."""
    # A receipt that arrives twice must not remove a file that waits to enter the table.
    unwanted = [name for name in names if _NAME.fullmatch(name) and not target.replica.awaits(name)]
    for name in unwanted:
        await on_thread((target.directory / STAGING / name).unlink, missing_ok=True)


class StagingSweep:
    """Removes files that tasks staged and never committed: those unknown in two consecutive rounds.

    By the second round a file that was being committed is named by the log, or was refused.
    """

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        """Returns whether a receipt of a range would still be accepted."""
        self._found: set[Path] = set()
        """The unknown files of the last round."""

    async def round(self, targets: Iterable[Stream]) -> int:
        """Return how many files were removed; no replicator may be copying into the targets."""
        found: set[Path] = set()
        removed = 0
        for target in targets:
            for name in await on_thread(_names, target.directory / STAGING):
                path = target.directory / STAGING / name
                if self._is_known(name.split("-")[0]) or target.replica.awaits(name):
                    continue
                if path in self._found:
                    await remove_staged(target, [name])
                    removed += 1
                else:
                    found.add(path)
        self._found = found
        return removed


def _names(directory: Path) -> list[str]:
    try:
        return [path.name for path in directory.iterdir()]
    except OSError:
        return []
