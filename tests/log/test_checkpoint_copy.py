"""The copy of a checkpoint is used only if the log still has everything since."""

from __future__ import annotations

import random
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.log import checkpoint, checkpoint_copy
from headwater.log.checkpoint import Checkpoint
from headwater.log.log import Log
from simulation.disks import BreakableDisk, Fault, PowerCut


def rotated(directory: Path, disk: RealDisk) -> Log:
    """Return a log with the segments 1 to 3."""
    log = Log.open(directory, disk)
    for _ in range(3):
        log.rotate()
    return log


def test_the_copy_takes_the_place_of_a_damaged_checkpoint(tmp_path: Path, disk: RealDisk) -> None:
    path, log = tmp_path / "checkpoint", rotated(tmp_path / "log", disk)
    checkpoint_copy.write_both(disk, path, 3, b"state", 7)
    log.trim(3)
    log.close()
    path.write_bytes(b"damaged")
    assert checkpoint_copy.restored(disk, path, tmp_path / "log") == Checkpoint(3, b"state", 7)
    assert checkpoint.read(disk, path) == Checkpoint(3, b"state", 7)


def test_a_copy_that_is_older_than_the_log_is_not_used(tmp_path: Path, disk: RealDisk) -> None:
    path, log = tmp_path / "checkpoint", rotated(tmp_path / "log", disk)
    checkpoint_copy.write_both(disk, path, 2, b"old")
    assert checkpoint_copy.usable(disk, path, tmp_path / "log") is not None
    checkpoint.write(disk, path, 3, b"new")  # as a release does that knows no copy
    log.trim(3)
    log.close()
    path.write_bytes(b"damaged")
    assert checkpoint_copy.restored(disk, path, tmp_path / "log") is None
    assert path.read_bytes() == b"damaged"


def test_a_copy_that_is_missing_or_damaged_is_not_used(tmp_path: Path, disk: RealDisk) -> None:
    path = tmp_path / "checkpoint"
    rotated(tmp_path / "log", disk).close()
    assert checkpoint_copy.usable(disk, path, tmp_path / "log") is None
    checkpoint_copy.write_both(disk, path, 3, b"state")
    assert checkpoint_copy.usable(disk, path, tmp_path / "none") is None
    checkpoint_copy.copy_path(path).write_bytes(b"damaged")
    assert checkpoint_copy.usable(disk, path, tmp_path / "log") is None


@pytest.mark.parametrize("fault", Fault)
def test_a_failure_at_any_operation_leaves_both_usable(fault: Fault) -> None:
    operation, broke = 1, True
    while broke:
        with TemporaryDirectory() as root:
            disk = BreakableDisk(Path(root), operation)
            path = Path(root, "checkpoint")
            checkpoint_copy.write_both(disk, path, 1, b"old")
            before = disk.operations
            disk.break_at(before + operation, fault)
            try:
                checkpoint_copy.write_both(disk, path, 2, b"new")
            except (DiskError, PowerCut):
                pass
            broke = disk.operations >= before + operation
            disk.heal()
            disk.power_cut(random.Random(operation))
            states = (Checkpoint(1, b"old"), Checkpoint(2, b"new"))
            first, copy = (checkpoint.read(disk, p) for p in (path, checkpoint_copy.copy_path(path)))
            assert first in states
            assert copy in states
            assert not (first == states[1] and copy == states[0]), "the copy is never behind"
        operation += 1
