"""The files that transfer tasks leave for a target: found by name, checked, removed.

A receipt may only name regular files that are staged for its own target. They must be complete, and match the
sums of the receipt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from headwater.errors import CorruptionError, DiskError, Error
from headwater.model.adopted import Adopted
from headwater.stream.stream import Stream
from headwater.table import parquet
from headwater.table.output import footer_crc_of
from headwater.table.staging import WRITTEN, Staging
from headwater.table.stored_bytes import StoredBytes
from headwater.threads import on_thread

_CHECKS_AT_ONCE = 8
"""In a bucket each check costs two requests."""
_NAME = re.compile(r"[A-Za-z0-9_~%-][A-Za-z0-9._~%-]{0,254}")


class StagedFileError(Error):
    """A receipt names a file that is not a staged file of its target, or that does not match the receipt."""


def open_staged(staging: Staging, name: str) -> tuple[StoredBytes, int]:
    """Return a staged file, given by its name alone, and its size."""
    if not _NAME.fullmatch(name):
        raise StagedFileError(f"{name!r} is not the name of a staged file")
    size = staging.size(name)
    if size is None:
        raise StagedFileError(f"{name} is not among the staged files")
    return staging.open(name), size


def read_whole(staging: Staging, name: str) -> bytes:
    """Return all bytes of a staged file; blocking."""
    file, size = open_staged(staging, name)
    return file.read(0, size)


def check_adopted(staging: Staging, adopted: Sequence[Adopted]) -> None:
    """Refuse files that are missing or do not match their sums; blocking."""
    if len(adopted) < 2 or not staging.is_remote:
        for file in adopted:
            _check(staging, file)
        return
    with ThreadPoolExecutor(_CHECKS_AT_ONCE) as threads:
        list(threads.map(lambda file: _check(staging, file), adopted))


def _check(staging: Staging, file: Adopted) -> None:
    opened, size = open_staged(staging, file.name)
    if size != file.size_bytes:
        raise StagedFileError(f"{file.name} has {size} bytes, not {file.size_bytes}")
    try:
        footer = parquet.read_footer(opened, footer_crc_of(file.name))
    except CorruptionError as error:
        raise StagedFileError(str(error)) from None
    found = footer.metadata.num_rows, footer.bounds[0][0], footer.bounds[-1][1]
    if found != (file.rows, file.first_offset, file.last_offset):
        raise StagedFileError(f"{file.name} contains other messages than its receipt says")


async def remove_staged(target: Stream, names: Iterable[str]) -> None:
    """Remove files that are staged for a target and that its log does not name."""
    # A receipt that arrives twice must not remove a file that waits to enter the table.
    unwanted = [name for name in names if _NAME.fullmatch(name) and not target.replica.awaits(name)]
    for name in unwanted:
        await on_thread(target.replica.staging.discard, name)


class StagingSweep:
    """Removes files that tasks staged and never committed: those unknown in two consecutive rounds.

    By the second round a file that was being committed is named by the log, or was refused.
    """

    def __init__(self, is_known: Callable[[str], bool]) -> None:
        self._is_known = is_known
        """Returns whether a receipt of a range would still be accepted."""
        self._found: set[tuple[str, str]] = set()
        """The unknown files of the last round."""

    async def round(self, targets: Iterable[Stream]) -> int:
        """Return how many files were removed; no replicator may be copying into the targets."""
        found: set[tuple[str, str]] = set()
        removed = 0
        for target in targets:
            for name in await on_thread(_names, target.replica.staging):
                path = (target.replica.staging.address, name)
                if name.startswith(WRITTEN):
                    continue
                if self._is_known(name.split("-")[0]) or target.replica.awaits(name):
                    continue
                if path in self._found:
                    await remove_staged(target, [name])
                    removed += 1
                else:
                    found.add(path)
        self._found = found
        return removed


def _names(staging: Staging) -> Sequence[str]:
    try:
        return staging.names()
    except (OSError, DiskError):
        return []
