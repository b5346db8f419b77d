"""The state of a stream at the start of a segment, in one file that is replaced whole."""

from __future__ import annotations

from errno import ENOENT
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from headwater.checksum import crc32
from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError

MAGIC = b"\xf1HWCKP\r\n"
VERSION = 1

_HEAD = Struct("<8sII")
_FIELDS = Struct("<QQ")


class Checkpoint(NamedTuple):
    """Where replay starts, and the state at that point, which only the stream reads."""

    segment: int
    payload: bytes


def write(disk: Disk, path: Path, segment: int, payload: bytes) -> None:
    """Return once the checkpoint has durably taken the place of the one before."""
    checked = _FIELDS.pack(segment, len(payload)) + payload
    disk.write_atomic(path, _HEAD.pack(MAGIC, VERSION, crc32(checked)) + checked)


def read(disk: Disk, path: Path) -> Checkpoint | None:
    """Return the checkpoint, None if there is none yet; refuse a damaged one."""
    try:
        encoded = disk.read_all(path)
    except DiskError as error:
        if error.errno == ENOENT:
            return None
        raise
    if len(encoded) < _HEAD.size + _FIELDS.size:
        raise CorruptionError(path, 0, "the checkpoint is cut short")
    magic, version, crc = _HEAD.unpack_from(encoded)
    if magic != MAGIC:
        raise CorruptionError(path, 0, "it is no checkpoint")
    if version != VERSION:
        raise CorruptionError(path, 8, f"version {version} of the checkpoint is not known")
    segment, length = _FIELDS.unpack_from(encoded, _HEAD.size)
    payload = encoded[_HEAD.size + _FIELDS.size :]
    if len(payload) != length or crc32(memoryview(encoded)[_HEAD.size :]) != crc:
        raise CorruptionError(path, 16, "the checksum of the checkpoint does not match")
    return Checkpoint(segment, payload)
