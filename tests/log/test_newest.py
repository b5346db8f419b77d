"""The record of the newest segment: what is written is read, and anything else is refused."""

from __future__ import annotations

from errno import EIO, ENOSPC
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError, NewerFormatError
from headwater.log import Log, newest
from headwater.log.recovery import numbers_in
from headwater.log.segment import segment_path
from headwater.model.sealed import seal
from log.batches import contents, numbered


def test_the_number_of_a_segment_is_read_as_it_was_written(tmp_path: Path, disk: RealDisk) -> None:
    path = tmp_path / newest.FILE
    assert newest.read(disk, path) == newest.known(disk, path) == 0
    newest.write(disk, path, 7)
    assert newest.read(disk, path) == newest.known(disk, path) == 7


def test_a_damaged_record_is_refused_or_says_nothing(tmp_path: Path, disk: RealDisk) -> None:
    path = tmp_path / newest.FILE
    newest.write(disk, path, 7)
    path.write_bytes(path.read_bytes().replace(b"7", b"8"))
    with pytest.raises(CorruptionError, match="checksum"):
        newest.read(disk, path)
    assert newest.known(disk, path) == 0


def test_a_record_of_a_newer_release_is_refused(tmp_path: Path, disk: RealDisk) -> None:
    path = tmp_path / newest.FILE
    path.write_bytes(seal({"segment": 7}, newest.VERSION + 1))
    with pytest.raises(NewerFormatError, match=newest.FILE):
        newest.known(disk, path)


class RefusedRecord(RealDisk):
    """A disk that refuses to write the record, before or after the new one has its name."""

    def __init__(self) -> None:
        super().__init__(sync=False)
        self.refuses = ""

    def write_atomic(self, path: Path, data: bytes) -> None:
        if self.refuses == "before":
            raise DiskError(path, "write", ENOSPC)
        super().write_atomic(path, data)
        if self.refuses == "after":
            raise DiskError(path, "sync", EIO)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_record_that_cannot_be_written_leaves_a_log_that_opens(tmp_path: Path, when: str) -> None:
    disk, directory, record = RefusedRecord(), tmp_path / "log", tmp_path / newest.FILE
    log = Log.open(directory, disk, record=record)
    log.append([numbered(1)])
    log.sync()
    disk.refuses = when
    for _ in range(5):
        with pytest.raises(DiskError):
            log.rollback()
        crashed = Log.open(tmp_path / "log", disk, record=record)
        assert (contents(crashed), crashed.missing) == ([numbered(1)], "")
    assert len(numbers_in(directory, disk)) <= 2, "attempts on a full disk leave no files"
    disk.refuses = ""
    log.rollback()
    log.append([numbered(2)])
    log.sync()
    log.close()
    again = Log.open(directory, disk, record=record)
    assert (contents(again), again.missing) == ([numbered(1), numbered(2)], "")


def test_the_number_of_a_missing_segment_is_not_used_again(tmp_path: Path, disk: RealDisk) -> None:
    directory, record = tmp_path / "log", tmp_path / newest.FILE
    log = Log.open(directory, disk, record=record)
    log.append([numbered(1)])
    log.sync()
    lost = log.rotate()
    log.close()
    segment_path(directory, lost).unlink()
    log = Log.open(directory, disk, record=record)
    assert log.missing == f"segment {lost}, the newest one, is missing"
    assert log.rotate() == lost + 1
    log.close()
    assert Log.open(directory, disk, record=record).missing == ""
