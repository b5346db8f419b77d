"""Batches are read as they were appended; unsynced ones can be discarded durably."""

from __future__ import annotations

from errno import ENOENT
from pathlib import Path
from threading import Event, Thread

import pytest

from headwater.disk import RealDisk
from headwater.errors import DiskError, FencedError
from headwater.log import Log
from headwater.log.segment import SEGMENT_HEADER_SIZE, STAMP_SIZE, SegmentHeader, read_header, segment_path
from log.batches import contents, numbered
from simulation.disks import BreakableDisk, Fault


def reopened(log: Log, directory: Path, disk: RealDisk) -> Log:
    log.close()
    return Log.open(directory, disk)


def test_a_new_log_is_empty(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    assert contents(log) == []
    assert log.size_bytes == 0
    log = reopened(log, directory, disk)
    assert contents(log) == []
    assert log.rotate() == 1
    assert log.size_bytes == SEGMENT_HEADER_SIZE


def test_batches_are_replayed_where_append_said_they_lie(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    positions = log.append([numbered(1), numbered(2, count=3)])
    positions += log.append([numbered(5)])
    log.sync()
    log = reopened(log, directory, disk)
    assert [position for position, _ in log.replay()] == positions
    assert [batch.base_seq for _, batch in log.replay()] == [1, 2, 5]
    assert [log.read(position).base_seq for position in positions] == [1, 2, 5]
    assert log.damage == []


def test_a_batch_can_be_read_before_it_is_synced(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    [position] = log.append([numbered(1)])
    assert log.read(position).encoded == numbered(1)


def test_appends_after_a_reopen_follow_the_old_ones(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    log = reopened(log, directory, disk)
    [position] = log.append([numbered(2)])
    log.sync()
    assert log.read(position).base_seq == 2
    assert contents(log) == contents(reopened(log, directory, disk)) == [numbered(1), numbered(2)]


def test_size_counts_all_segments(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    log.rotate()
    log.append([numbered(2)])
    assert log.size_bytes == sum(path.stat().st_size for path in directory.iterdir())


def test_trim_removes_what_is_below_and_nothing_else(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    for seq in (1, 2, 3):
        log.append([numbered(seq)])
        log.sync()
        log.rotate()
    log.trim(3)
    assert contents(log) == [numbered(3)]
    assert sorted(path.name for path in directory.iterdir()) == [
        segment_path(directory, 3).name,
        segment_path(directory, 4).name,
    ]
    log.close()
    log = Log.open(directory, disk, from_segment=3)
    assert contents(log) == [numbered(3)]
    assert log.damage == []


def test_open_removes_segments_below_the_checkpoint(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    start = log.rotate()
    log.append([numbered(2)])
    log.sync()
    log.close()
    log = Log.open(directory, disk, from_segment=start)
    assert contents(log) == [numbered(2)]
    assert len(list(directory.iterdir())) == 1


def test_a_log_whose_segments_are_all_below_the_checkpoint_continues_there(
    directory: Path, disk: RealDisk
) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    log.close()
    log = Log.open(directory, disk, from_segment=7)
    assert contents(log) == []
    [position] = log.append([numbered(2)])
    assert position.segment == 7


def test_files_that_are_no_segments_are_left_alone(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.rotate()
    log.close()
    for name in ("1.log", "note.txt", "0000000000000000000x.log", "00000000000000000001.log.tmp"):
        (directory / name).write_bytes(b"mine")
    log = Log.open(directory, disk)
    assert log.segment == 1
    assert len(list(directory.iterdir())) == 5


def test_appending_after_a_failure_without_rollback_is_a_bug(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    log = Log.open(tmp_path / "log", disk)
    log.rotate()
    disk.break_at(disk.operations + 1, Fault.TORN)
    with pytest.raises(DiskError):
        log.append([numbered(1)])
    with pytest.raises(AssertionError):
        log.append([numbered(1)])
    with pytest.raises(AssertionError):
        log.sync()
    log.rollback()
    log.append([numbered(2)])
    assert contents(log) == [numbered(2)]


@pytest.mark.parametrize("operation", [1, 2, 3, 4])
def test_appending_after_a_failed_rotate_is_a_bug_since_its_header_may_be_on_disk(
    tmp_path: Path, operation: int
) -> None:
    disk = BreakableDisk(tmp_path)
    log = Log.open(tmp_path / "log", disk)
    disk.break_at(disk.operations + operation, Fault.LATE)
    with pytest.raises(DiskError):
        log.rotate()
    with pytest.raises(AssertionError):
        log.append([numbered(1)])
    log.rollback()
    log.append([numbered(1)])
    assert contents(log) == [numbered(1)]


def test_rotating_what_is_not_synced_is_a_bug(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    with pytest.raises(AssertionError):
        log.rotate()


def test_a_rollback_forgets_what_was_not_synced(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    durable = log.size_bytes
    log.append([numbered(2, data=b"old")])
    log.rollback()
    assert segment_path(directory, 1).stat().st_size == durable
    log.append([numbered(2, data=b"new")])
    log.sync()
    expected = [numbered(1), numbered(2, data=b"new")]
    assert contents(log) == expected
    log = reopened(log, directory, disk)
    assert contents(log) == expected
    assert log.damage == []


def test_a_rollback_on_a_full_disk_succeeds_once_there_is_space(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    log = Log.open(tmp_path / "log", disk)
    log.append([numbered(1)])
    log.sync()
    disk.break_always(Fault.FULL)
    with pytest.raises(DiskError) as refused:
        log.append([numbered(2)])
    assert refused.value.full
    for _ in range(3):
        with pytest.raises(DiskError):
            log.rollback()
    disk.heal()
    log.rollback()
    log.append([numbered(3)])
    log.sync()
    assert contents(log) == [numbered(1), numbered(3)]
    log.close()
    assert contents(Log.open(tmp_path / "log", disk)) == [numbered(1), numbered(3)]


def test_a_rolled_back_batch_stays_away_even_if_the_cut_never_reached_the_disk(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    log = Log.open(tmp_path / "log", disk)
    log.append([numbered(1)])
    log.sync()
    log.append([numbered(2, data=b"old")])
    disk.break_at(1, Fault.REFUSED, "truncate")
    log.rollback()
    log.append([numbered(2, data=b"new")])
    log.sync()
    log.close()
    log = Log.open(tmp_path / "log", disk)
    assert contents(log) == [numbered(1), numbered(2, data=b"new")]
    assert log.damage == []


class Owner:
    """A fence that a test lowers."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_fenced = False

    def check(self) -> None:
        if self.is_fenced:
            raise FencedError(Path("store"), self.epoch, "another engine has it")


def test_a_new_owner_never_appends_where_the_old_one_may_still_write(directory: Path, disk: RealDisk) -> None:
    old, new = Owner(1), Owner(2)
    first = Log.open(directory, disk, fence=old)
    first.append([numbered(1)])
    first.sync()
    second = Log.open(directory, RealDisk(sync=False), fence=new)
    old.is_fenced = True
    first.append([numbered(2, data=b"late")])
    with pytest.raises(FencedError):
        first.sync()
    second.append([numbered(2, data=b"new")])
    second.sync()
    first.close()
    second.close()
    last = Log.open(directory, disk)
    assert contents(last) == [numbered(1), numbered(2, data=b"new")]
    assert last.damage == []
    sealed = SEGMENT_HEADER_SIZE + STAMP_SIZE + len(numbered(1))
    assert read_header(disk, directory, 2) == SegmentHeader(2, 1, sealed, 2)


def test_a_segment_that_the_old_owner_started_meanwhile_is_void(directory: Path, disk: RealDisk) -> None:
    first = Log.open(directory, disk, fence=Owner(1))
    first.append([numbered(1)])
    first.sync()
    second = Log.open(directory, RealDisk(sync=False), fence=Owner(2))
    assert first.rotate() == 2
    first.append([numbered(2, data=b"late")])
    [position] = second.append([numbered(2, data=b"new")])
    second.sync()
    assert position.segment == 3
    first.close()
    second.close()
    assert contents(Log.open(directory, disk)) == [numbered(1), numbered(2, data=b"new")]


def test_a_fenced_owner_neither_starts_a_segment_that_is_there_nor_rolls_back(
    directory: Path, disk: RealDisk
) -> None:
    old = Owner(1)
    first = Log.open(directory, disk, fence=old)
    first.append([numbered(1)])
    first.sync()
    second = Log.open(directory, RealDisk(sync=False), fence=Owner(2))
    second.append([numbered(2)])
    second.sync()
    old.is_fenced = True
    with pytest.raises(FencedError):
        first.rotate()
    with pytest.raises(FencedError):
        first.rollback()
    assert contents(Log.open(directory, disk)) == [numbered(1), numbered(2)]


def test_a_segment_that_a_fenced_owner_put_behind_that_of_its_successor_is_void(
    directory: Path, disk: RealDisk
) -> None:
    first = Log.open(directory, disk, fence=Owner(1))
    first.append([numbered(1)])
    first.sync()
    second = Log.open(directory, RealDisk(sync=False), fence=Owner(2))
    second.append([numbered(2)])
    second.sync()
    first.rotate()  # it does not know yet: its header names segment 1 as the one before
    for _ in range(2):
        log = Log.open(directory, RealDisk(sync=False))
        assert contents(log) == [numbered(1), numbered(2)]
        assert log.damage == []
        log.close()


def test_a_log_whose_store_forgot_its_epoch_continues_with_the_one_it_knows(
    directory: Path, disk: RealDisk
) -> None:
    for epoch, seq in ((7, 1), (1, 2), (2, 3)):
        log = Log.open(directory, disk, fence=Owner(epoch))
        log.append([numbered(seq)])
        log.sync()
        log.close()
    assert contents(Log.open(directory, disk)) == [numbered(1), numbered(2), numbered(3)]


def test_a_log_of_a_later_owner_is_refused_by_one_that_was_fenced(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk, fence=Owner(5))
    log.append([numbered(1)])
    log.sync()
    log.close()
    old = Owner(4)
    assert contents(Log.open(directory, disk, fence=old)) == [numbered(1)]
    old.is_fenced = True
    with pytest.raises(FencedError):
        Log.open(directory, disk, fence=old)


def test_other_threads_read_while_the_log_grows_and_is_trimmed(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    [kept] = log.append([numbered(1, count=50)])
    wrong: list[object] = []
    done = Event()

    def read() -> None:
        while not done.is_set():
            try:
                if log.read(kept).encoded != numbered(1, count=50) or log.size_bytes < kept.length:
                    wrong.append("another batch")
            except DiskError as error:
                # The position is older than the trim; the owner of a stream looks in the table then.
                if error.errno != ENOENT:
                    wrong.append(error)
            except Exception as error:
                wrong.append(error)

    readers = [Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for seq in range(51, 251):
        [kept] = log.append([numbered(1, count=50)])
        log.append([numbered(seq)])
        log.sync()
        log.rotate()
        log.trim(kept.segment)
    done.set()
    for reader in readers:
        reader.join()
    assert wrong == []
