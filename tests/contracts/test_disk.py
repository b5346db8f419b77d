"""What holds for every disk: the real one, unsynced ones, journaled ones, and one that breaks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.disk import Disk, RealDisk
from headwater.errors import DiskError
from journals import Head, folder_journal
from simulation.disks import BreakableDisk


@pytest.fixture(params=["synced", "unsynced", "breakable", "journaled"])
def disk(
    request: pytest.FixtureRequest, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Disk]:
    if request.param == "breakable":
        yield BreakableDisk(tmp_path)
    elif request.param == "journaled":
        head = Head(folder_journal(tmp_path_factory.mktemp("journal")), tmp_path)
        yield head.disk
        head.shipper.close()
    else:
        yield RealDisk(sync=request.param == "synced")


def test_what_is_appended_is_read_back_whole_and_in_ranges(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "f"
    file = disk.open_append(path)
    file.write([b"one", b"", b"two"])
    file.write([b"three"])
    file.sync()
    disk.sync_dir(tmp_path)
    assert (file.size, disk.file_size(path)) == (11, 11)
    assert disk.read_all(path) == b"onetwothree"
    assert (disk.read(path, 3, 3), disk.read(path, 6, 100), disk.read(path, 50, 1)) == (b"two", b"three", b"")
    file.close()


def test_a_file_is_opened_at_its_end_and_can_be_truncated(disk: Disk, tmp_path: Path) -> None:
    path = tmp_path / "f"
    first = disk.create_append(path)
    first.write([b"hello"])
    first.sync()
    first.close()
    again = disk.open_append(path)
    assert again.size == 5
    again.truncate(2)
    again.write([b"y"])
    again.sync()
    again.close()
    assert disk.read_all(path) == b"hey"


def test_a_file_that_exists_is_not_created_again(disk: Disk, tmp_path: Path) -> None:
    disk.create_append(tmp_path / "f").close()
    with pytest.raises(DiskError):
        disk.create_append(tmp_path / "f")


def test_an_atomic_write_replaces_all_of_a_file(disk: Disk, tmp_path: Path) -> None:
    disk.write_atomic(tmp_path / "f", b"long old content")
    disk.write_atomic(tmp_path / "f", b"new")
    assert disk.read_all(tmp_path / "f") == b"new"
    assert disk.list(tmp_path) == ["f"]


def test_renaming_replaces_the_target_and_removing_twice_is_no_error(disk: Disk, tmp_path: Path) -> None:
    disk.write_atomic(tmp_path / "a", b"a")
    disk.write_atomic(tmp_path / "b", b"b")
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.sync_dir(tmp_path)
    assert (disk.list(tmp_path), disk.read_all(tmp_path / "b")) == (["b"], b"a")
    disk.remove(tmp_path / "b")
    disk.remove(tmp_path / "b")
    disk.sync_dir(tmp_path)
    assert disk.list(tmp_path) == []


def test_directories_are_made_with_their_parents_and_removed_with_their_content(
    disk: Disk, tmp_path: Path
) -> None:
    disk.mkdir(tmp_path / "a" / "b")
    disk.mkdir(tmp_path / "a" / "b")
    disk.write_atomic(tmp_path / "a" / "b" / "f", b"x")
    assert disk.list(tmp_path / "a") == ["b"]
    disk.remove_tree(tmp_path / "a")
    disk.remove_tree(tmp_path / "a")
    disk.sync_dir(tmp_path)
    assert disk.list(tmp_path) == []


def test_what_is_missing_is_a_disk_error_that_names_it(disk: Disk, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for refused in (
        lambda: disk.read_all(missing),
        lambda: disk.read(missing, 0, 1),
        lambda: disk.file_size(missing),
        lambda: disk.list(missing),
        lambda: disk.rename(missing, tmp_path / "other"),
    ):
        with pytest.raises(DiskError, match="missing"):
            refused()


def test_reads_see_a_file_that_took_the_place_of_another(disk: Disk, tmp_path: Path) -> None:
    disk.write_atomic(tmp_path / "f", b"old")
    assert disk.read(tmp_path / "f", 0, 3) == b"old"
    disk.write_atomic(tmp_path / "f", b"new")
    assert disk.read(tmp_path / "f", 0, 3) == b"new"
