"""The files that transfers leave in a target's staging directory: found by bare names, checked, removed.

A receipt names files: none outside of the target's own directory, and none that is not there, not whole, or
not the one that the receipt's sums are of.
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
    """A receipt names what is no staged file of its target, or not the one that it tells of."""


def staged_path(staging: Path, name: str) -> Path:
    """Return where a staged file lies: a regular file of the directory itself, by its bare name."""
    if not _NAME.fullmatch(name):
        raise StagedFileError(f"{name!r} is no name of a staged file")
    path = staging / name
    try:
        mode = path.lstat().st_mode
    except OSError:
        raise StagedFileError(f"{name} is not among the staged files") from None
    if not stat.S_ISREG(mode):
        raise StagedFileError(f"{name} is no regular file")
    return path


def check_adopted(staging: Path, adopted: Sequence[Adopted]) -> None:
    """Refuse files that are not there or not those whose sums these are; blocking."""
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
            raise StagedFileError(f"{file.name} holds other messages than its receipt says")


async def remove_staged(target: Stream, names: Iterable[str]) -> None:
    """Remove files from a target's staging directory that its log does not name."""
    # A receipt that comes in once more must not take a file that waits to enter the table.
    unwanted = [name for name in names if _NAME.fullmatch(name) and not target.replica.awaits(name)]
    for name in unwanted:
        await on_thread((target.directory / STAGING / name).unlink, missing_ok=True)


class StagingSweep:
    """Removes what tasks staged and never handed in: a file that two rounds in a row found nobody for.

    A round apart, a file that is just being taken in has long been named by the log, or is refused.
    """

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        """Whether a receipt of a piece of work would still be taken."""
        self._found: set[Path] = set()

    async def round(self, targets: Iterable[Stream]) -> int:
        """Return how many files were removed from targets that nobody is at work on."""
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
