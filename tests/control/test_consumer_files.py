"""The file of a consumer is written and removed with it; what the disk refused is removed later."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headwater.control import declaration
from headwater.control.consumer_files import ConsumerFiles
from headwater.control.declaration import ConsumerDeclaration, ConsumerFile
from headwater.disk import RealDisk
from headwater.errors import DiskError


class UnsyncedDisk(RealDisk):
    """A disk that changes the files of consumers and then reports so many failures to sync their names."""

    failures = 0

    def sync_dir(self, path: Path) -> None:
        if path.name == declaration.CONSUMERS and self.failures:
            self.failures -= 1
            raise DiskError(path, "sync", errno.EIO)
        super().sync_dir(path)


def declared(revision: int = 1) -> ConsumerDeclaration:
    return ConsumerDeclaration(identity="id", name="c", config="{}", created_ns=5, revision=revision)


def file_of(revision: int = 1) -> ConsumerFile:
    return ConsumerFile.of("c", 5, revision)


@pytest.fixture
def disk() -> UnsyncedDisk:
    return UnsyncedDisk(sync=False)


def test_a_new_revision_takes_the_place_of_the_old_file(tmp_path: Path, disk: UnsyncedDisk) -> None:
    files = ConsumerFiles(disk)
    files.write(tmp_path, declared(1), None)
    files.write(tmp_path, declared(2), file_of(1))
    assert declaration.consumer_files(disk, tmp_path) == [file_of(2)]
    files.remove(tmp_path, file_of(2))
    assert declaration.consumer_files(disk, tmp_path) == []


def test_a_file_left_behind_is_removed_once_the_disk_is_healthy(tmp_path: Path, disk: UnsyncedDisk) -> None:
    files = ConsumerFiles(disk)
    disk.failures = 2
    with pytest.raises(DiskError):
        files.write(tmp_path, declared(), None)
    files.leave_behind(tmp_path, file_of())
    files.remove_leftover()
    assert files.has_leftover, "the disk refused this, too"
    files.remove_leftover()
    assert not files.has_leftover
    assert declaration.consumer_files(disk, tmp_path) == []


def test_a_consumer_declared_again_keeps_its_file(tmp_path: Path, disk: UnsyncedDisk) -> None:
    files = ConsumerFiles(disk)
    files.leave_behind(tmp_path, file_of())
    files.write(tmp_path, declared(), None)
    files.remove_leftover()
    assert declaration.consumer_files(disk, tmp_path) == [file_of()]


def test_all_revisions_are_removed_where_the_disk_refused_a_change(
    tmp_path: Path, disk: UnsyncedDisk
) -> None:
    files = ConsumerFiles(disk)
    files.write(tmp_path, declared(1), None)
    disk.failures = 1
    with pytest.raises(DiskError):
        files.write(tmp_path, declared(2), None)
    files.remove(tmp_path, file_of(1))
    assert declaration.consumer_files(disk, tmp_path) == []
