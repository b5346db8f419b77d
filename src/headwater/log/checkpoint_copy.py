"""The second copy of a checkpoint, which is used when the first one is damaged or of an older epoch.

1. The copy is written. Both files are usable: the log still has everything since the older one.
2. The checkpoint is written. Both files hold the same.
3. The log is trimmed below it.

So no step leaves a checkpoint of an older epoch next to a copy that the log has been trimmed for. If there is
one, an engine that had lost the store wrote it late, and its successor's copy is used.

A release that does not know the copy leaves an old one behind. So a copy is used only if the log still has
every segment from the one that it names.
"""

from __future__ import annotations

from pathlib import Path

from headwater.disk import Disk
from headwater.errors import CorruptionError
from headwater.fence import NO_FENCE, Fence
from headwater.log import checkpoint
from headwater.log.checkpoint import Checkpoint
from headwater.log.recovery import numbers_in, survey

SUFFIX = ".copy"


def copy_path(path: Path) -> Path:
    """Return where the copy of a checkpoint is."""
    return path.with_name(path.name + SUFFIX)


def write_both(
    disk: Disk, path: Path, segment: int, payload: bytes, epoch: int = 0, fence: Fence = NO_FENCE
) -> None:
    """Return once the checkpoint and its copy have durably taken the place of those before."""
    checkpoint.write(disk, copy_path(path), segment, payload, epoch, fence)
    checkpoint.write(disk, path, segment, payload, epoch, fence)


def current(disk: Disk, path: Path, log: Path) -> Checkpoint | None:
    """Return the checkpoint that counts, None if there is none yet; refuse a damaged one."""
    taken = checkpoint.read(disk, path)
    return successor(disk, path, log, taken) or taken


def successor(disk: Disk, path: Path, log: Path, taken: Checkpoint | None) -> Checkpoint | None:
    """Return the copy if an engine of a later epoch wrote it than the checkpoint, which then is not used."""
    if taken is None or checkpoint.noted_epoch(disk, copy_path(path)) <= taken.epoch:
        return None
    copied = usable(disk, path, log)
    return copied if copied is not None and copied.epoch > taken.epoch else None


def usable(disk: Disk, path: Path, log: Path) -> Checkpoint | None:
    """Return what the copy of a checkpoint holds, None if it is missing, damaged or too old."""
    try:
        taken = checkpoint.read(disk, copy_path(path))
    except CorruptionError:
        return None
    if taken is None or not log.exists():
        return None
    known = survey(log, disk, taken.segment, numbers_in(log, disk))
    return taken if taken.segment in known.lengths and not known.damage else None


def restored(disk: Disk, path: Path, log: Path, fence: Fence = NO_FENCE) -> Checkpoint | None:
    """Return the checkpoint from its copy, once it durably is the checkpoint again."""
    taken = usable(disk, path, log)
    if taken is not None:
        checkpoint.write(disk, path, *taken, fence)
    return taken
