"""The copy of a checkpoint is used only if the log still has everything since."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from headwater.control.ownership import Ownership
from headwater.disk import RealDisk
from headwater.errors import DiskError, FencedError
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


class SuspendedDisk(RealDisk):
    """A disk whose user is suspended before the given operation, while something else happens."""

    def __init__(self, before: int, meanwhile: Callable[[], None]) -> None:
        super().__init__(sync=False)
        self.operations = 0
        self._before = before
        self._meanwhile = meanwhile

    def _suspend(self) -> None:
        self.operations += 1
        if self.operations == self._before:
            self._meanwhile()

    def write_atomic(self, path: Path, data: bytes) -> None:
        self._suspend()
        super().write_atomic(path, data)

    def rename(self, source: Path, target: Path) -> None:
        self._suspend()
        super().rename(source, target)

    def sync_dir(self, path: Path) -> None:
        self._suspend()
        super().sync_dir(path)


@pytest.mark.parametrize("removes", [True, False])
def test_an_engine_that_lost_the_store_cannot_replace_its_successors_checkpoint(
    tmp_path: Path, disk: RealDisk, removes: bool
) -> None:
    """This holds at every operation at which it is suspended, and if its prepared file was not removed."""
    operation, suspended = 1, True
    while suspended:
        home = tmp_path / f"{operation}"
        path, log = home / "checkpoint", rotated(home / "log", disk)
        checkpoint_copy.write_both(disk, path, 1, b"old")
        stale, owner = Ownership(home), Ownership(home)
        stale.take()

        def take_over(path: Path = path, log: Log = log, owner: Ownership = owner) -> None:
            owner.take()
            if removes:
                checkpoint.remove_prepared(disk, path, owner.epoch)
            assert checkpoint_copy.current(disk, path, path.parent / "log") is not None
            checkpoint_copy.write_both(disk, path, 3, b"new", owner.epoch, owner)
            log.trim(3)

        late = SuspendedDisk(operation, take_over)
        try:
            checkpoint_copy.write_both(late, path, 2, b"stale", stale.epoch, stale)
        except (DiskError, FencedError):
            pass
        suspended = late.operations >= operation
        expected = Checkpoint(3, b"new", 2) if suspended else Checkpoint(2, b"stale", 1)
        assert checkpoint_copy.current(disk, path, home / "log") == expected, f"operation {operation}"
        if removes:
            assert checkpoint.read(disk, path) == checkpoint.read(disk, checkpoint_copy.copy_path(path))
        log.close()
        operation += 1
    assert operation > 6


def test_only_what_other_epochs_have_prepared_is_removed(tmp_path: Path, disk: RealDisk) -> None:
    kept = (
        "checkpoint",
        "checkpoint.copy",
        "checkpoint.7",
        "checkpoint.7.tmp",
        "checkpoint.copy.7",
        "other.6",
    )
    gone = ("checkpoint.tmp", "checkpoint.copy.tmp", "checkpoint.6", "checkpoint.copy.6", "checkpoint.71.tmp")
    for name in kept + gone:
        (tmp_path / name).write_bytes(b"")
    checkpoint.remove_prepared(disk, tmp_path / "checkpoint", 7)
    assert sorted(disk.list(tmp_path)) == sorted(kept)


def test_a_checkpoint_of_an_older_epoch_than_its_copy_is_not_used(tmp_path: Path, disk: RealDisk) -> None:
    path, log = tmp_path / "checkpoint", rotated(tmp_path / "log", disk)
    checkpoint_copy.write_both(disk, path, 3, b"new", 2)
    checkpoint.write(disk, path, 2, b"stale", 1)
    assert checkpoint_copy.current(disk, path, tmp_path / "log") == Checkpoint(3, b"new", 2)
    checkpoint.write(disk, path, 2, b"later", 3)
    assert checkpoint_copy.current(disk, path, tmp_path / "log") == Checkpoint(2, b"later", 3)
    checkpoint_copy.copy_path(path).write_bytes(b"\xff" * 100)
    assert checkpoint_copy.current(disk, path, tmp_path / "log") == Checkpoint(2, b"later", 3)
    log.close()
