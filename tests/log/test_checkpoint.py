"""A checkpoint is the old one or the new one, whole, or it is refused."""

from __future__ import annotations

import random
from pathlib import Path
from struct import pack
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError, NewerFormatError
from headwater.log import checkpoint
from headwater.log.checkpoint import Checkpoint
from simulation.disks import BreakableDisk, Fault, PowerCut


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def test_a_checkpoint_that_was_never_written_is_none(path: Path, disk: RealDisk) -> None:
    assert checkpoint.read(disk, path) is None


@given(st.integers(0, 1 << 60), st.binary(max_size=300), st.integers(0, 1 << 31))
def test_a_checkpoint_is_read_as_it_was_written(segment: int, payload: bytes, epoch: int) -> None:
    with TemporaryDirectory() as root:
        disk = RealDisk(sync=False)
        checkpoint.write(disk, Path(root, "checkpoint"), segment, payload, epoch)
        assert checkpoint.read(disk, Path(root, "checkpoint")) == Checkpoint(segment, payload, epoch)


def test_a_checkpoint_of_version_1_is_read(path: Path, disk: RealDisk) -> None:
    checked = pack("<QQ", 7, 3) + b"old"
    path.write_bytes(checkpoint.MAGIC + pack("<II", 1, crc32(checked)) + checked)
    assert checkpoint.read(disk, path) == Checkpoint(7, b"old", 0)


def test_a_checkpoint_of_a_newer_version_is_refused_as_such(path: Path, disk: RealDisk) -> None:
    checked = b"whatever it may hold, of any length"
    path.write_bytes(checkpoint.MAGIC + pack("<II", 3, crc32(checked, crc32(pack("<I", 3)))) + checked)
    with pytest.raises(NewerFormatError, match="version 3, this Headwater knows up to 2: it was written by"):
        checkpoint.read(disk, path)


def test_the_newest_checkpoint_is_read(path: Path, disk: RealDisk) -> None:
    checkpoint.write(disk, path, 1, b"a long old payload")
    checkpoint.write(disk, path, 2, b"new")
    assert checkpoint.read(disk, path) == Checkpoint(2, b"new")


def test_a_flipped_bit_anywhere_is_refused(path: Path, disk: RealDisk) -> None:
    checkpoint.write(disk, path, 1, b"payload")
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        with pytest.raises(CorruptionError):
            checkpoint.read(disk, path)


def test_a_checkpoint_that_is_cut_or_longer_is_refused(path: Path, disk: RealDisk) -> None:
    checkpoint.write(disk, path, 1, b"payload")
    whole = path.read_bytes()
    for wrong in [*(whole[:end] for end in range(len(whole))), whole + b"\0"]:
        path.write_bytes(wrong)
        with pytest.raises(CorruptionError) as refused:
            checkpoint.read(disk, path)
        assert refused.value.path == path


def test_a_disk_that_cannot_read_is_no_missing_checkpoint(path: Path) -> None:
    disk = BreakableDisk(path.parent)
    checkpoint.write(disk, path, 1, b"payload")
    disk.break_always(Fault.REFUSED)
    with pytest.raises(DiskError):
        checkpoint.read(disk, path)


def replaced(fault: Fault, operation: int, seed: int) -> tuple[bool, bool, Checkpoint | None]:
    """Replace a checkpoint; return if it said so, if an operation broke, and what a power cut leaves."""
    with TemporaryDirectory() as root:
        disk = BreakableDisk(Path(root), seed)
        path = Path(root, "checkpoint")
        checkpoint.write(disk, path, 1, b"old")
        before = disk.operations
        disk.break_at(before + operation, fault)
        said = True
        try:
            checkpoint.write(disk, path, 2, b"new")
        except (DiskError, PowerCut):
            said = False
        broke = disk.operations >= before + operation
        disk.heal()
        disk.power_cut(random.Random(seed))
        return said, broke, checkpoint.read(disk, path)


@pytest.mark.parametrize("fault", Fault)
def test_a_failure_at_any_operation_leaves_the_old_or_the_new(fault: Fault) -> None:
    found = set()
    for seed in range(20):
        operation, broke = 1, True
        while broke:
            said, broke, left = replaced(fault, operation, seed)
            assert left in (Checkpoint(2, b"new"), Checkpoint(1, b"old"))
            assert left == Checkpoint(2, b"new") or not said
            found.add(left)
            operation += 1
    assert len(found) == 2


def test_what_a_crash_left_of_a_write_does_not_hinder_the_next(path: Path, disk: RealDisk) -> None:
    path.with_name("checkpoint.tmp").write_bytes(b"a longer rest of a checkpoint that was never finished")
    checkpoint.write(disk, path, 3, b"x")
    assert checkpoint.read(disk, path) == Checkpoint(3, b"x")
