"""The number of a log's newest segment, in a file of its own: it shows later that the segment is missing.

Each segment names the one before it, and nothing names the newest. Without it a log would just end earlier:
acknowledged messages would be gone, and their sequences would be used again.

The file is written once for each segment, after the segment is durable and before anything in it is
acknowledged. So a crash leaves a number that is too low, never one of a segment that was not there.
"""

from __future__ import annotations

import logging
from errno import ENOENT
from pathlib import Path

import msgspec

from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError
from headwater.model.sealed import NewerSealError, SealError, seal, unseal

logger = logging.getLogger(__name__)

FILE = "log.newest"
VERSION = 1


class NewestSegment(msgspec.Struct, frozen=True):
    """The content of the file."""

    segment: int


def write(disk: Disk, path: Path, segment: int) -> None:
    """Return once the file durably names this segment."""
    disk.write_atomic(path, seal(NewestSegment(segment), VERSION))


def read(disk: Disk, path: Path) -> int:
    """Return the number of the newest segment, 0 if none was written; refuse a damaged file."""
    try:
        return unseal(disk.read_all(path), NewestSegment, VERSION).segment
    except DiskError as error:
        if error.errno == ENOENT:
            return 0
        raise
    except NewerSealError as error:
        raise error.of(f"the file {path}") from error
    except SealError as error:
        raise CorruptionError(path, 0, str(error)) from error


def known(disk: Disk, path: Path) -> int:
    """Return the same, 0 if the file is damaged: nothing is lost by that, and it is written again."""
    try:
        return read(disk, path)
    except CorruptionError as error:
        logger.warning("%s; a missing end of the log would not be noticed", error)
        return 0
