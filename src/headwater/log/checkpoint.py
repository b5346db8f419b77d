"""The state of a stream at the start of a segment, in one file that is replaced whole.

A new state is written to a file whose name has the epoch of its engine, and then renamed. A take-over removes
the files of other epochs before it reads the checkpoint. So an engine that was suspended before the rename
finds nothing to rename when it continues, and cannot replace the checkpoint of its successor.
"""

from __future__ import annotations

import re
from errno import ENOENT
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from headwater.checksum import crc32
from headwater.disk import Disk
from headwater.errors import CorruptionError, DiskError, NewerFormatError
from headwater.fence import NO_FENCE, Fence

MAGIC = b"\xf1HWCKP\r\n"
VERSION = 2
"""Version 1 has no epoch."""

_PREPARED = re.compile(r"checkpoint(?:\.copy)?\.(?:([0-9]+)(?:\.tmp)?|tmp)")
"""The names of files that become a checkpoint or its copy, with the epoch; earlier releases had none."""
_REPAIR = "run `headwater store repair` with the engine stopped"
_HEAD = Struct("<8sII")
_VERSION = Struct("<I")
_FIELDS = Struct("<QQQ")
_FIELDS_1 = Struct("<QQ")


class Checkpoint(NamedTuple):
    """Where replay starts, and the state at that point, which only the stream reads."""

    segment: int
    payload: bytes
    epoch: int = 0
    """Of the engine that wrote it; 0 in version 1."""


def write(
    disk: Disk, path: Path, segment: int, payload: bytes, epoch: int = 0, fence: Fence = NO_FENCE
) -> None:
    """Return once the checkpoint has durably taken the place of the one before.

    The epoch is that of the engine that took the state, which need not be the one that writes it.
    """
    checked = _FIELDS.pack(segment, len(payload), epoch) + payload
    prepared = path.with_name(f"{path.name}.{fence.epoch}")
    disk.write_atomic(prepared, _HEAD.pack(MAGIC, VERSION, _checksum(VERSION, checked)) + checked)
    fence.check()
    disk.rename(prepared, path)
    disk.sync_dir(path.parent)


def remove_prepared(disk: Disk, path: Path, epoch: int) -> None:
    """Remove checkpoints that engines of other epochs have prepared and not renamed."""
    for name in disk.list(path.parent):
        prepared = _PREPARED.fullmatch(name)
        if prepared is not None and prepared[1] != str(epoch):
            disk.remove(path.parent / name)


def noted_epoch(disk: Disk, path: Path) -> int:
    """Return the epoch in the first bytes of a file, unchecked; 0 if there is none."""
    try:
        start = disk.read(path, 0, _HEAD.size + _FIELDS.size)
    except DiskError as error:
        if error.errno == ENOENT:
            return 0
        raise
    whole = len(start) == _HEAD.size + _FIELDS.size and _HEAD.unpack_from(start)[1] != 1
    return int(_FIELDS.unpack_from(start, _HEAD.size)[2]) if whole else 0


def _checksum(version: int, checked: bytes | memoryview) -> int:
    """Return the checksum, which from version 2 on, in all versions to come, covers the version too."""
    return crc32(checked) if version == 1 else crc32(checked, crc32(_VERSION.pack(version)))


def read(disk: Disk, path: Path) -> Checkpoint | None:
    """Return the checkpoint, None if there is none yet; refuse a damaged one."""
    try:
        encoded = disk.read_all(path)
    except DiskError as error:
        if error.errno == ENOENT:
            return None
        raise
    if len(encoded) < _HEAD.size + _FIELDS_1.size:
        raise CorruptionError(path, 0, f"the checkpoint is cut short; {_REPAIR}")
    magic, version, crc = _HEAD.unpack_from(encoded)
    if magic != MAGIC:
        raise CorruptionError(path, 0, f"it is not a checkpoint; {_REPAIR}")
    if _checksum(version, memoryview(encoded)[_HEAD.size :]) != crc:
        raise CorruptionError(path, 16, f"the checksum of the checkpoint does not match; {_REPAIR}")
    if version > VERSION:
        raise NewerFormatError(f"the checkpoint {path}", version, VERSION)
    fields = _FIELDS_1 if version == 1 else _FIELDS
    if len(encoded) < _HEAD.size + fields.size:
        raise CorruptionError(path, 0, f"the checkpoint is cut short; {_REPAIR}")
    segment, length, *epoch = fields.unpack_from(encoded, _HEAD.size)
    payload = encoded[_HEAD.size + fields.size :]
    if len(payload) != length:
        raise CorruptionError(path, 24, f"the checkpoint is cut short; {_REPAIR}")
    return Checkpoint(segment, payload, *epoch)
