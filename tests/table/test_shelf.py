"""The files of a table in a folder of the disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.table.shelf import LocalShelf, data_paths
from simulation.disks import BreakableDisk, Fault

FOLDER = "base_seq=0/source=a"


@pytest.fixture
def shelf(tmp_path: Path) -> LocalShelf:
    shelf = LocalShelf(tmp_path / "table", RealDisk())
    shelf.prepare()
    shelf.make(FOLDER)
    return shelf


def test_a_file_is_there_once_it_is_finished(shelf: LocalShelf) -> None:
    written = shelf.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    assert list(shelf.paths()) == []
    shelf.finish(written, f"{FOLDER}/part.parquet")
    assert list(shelf.paths()) == [f"{FOLDER}/part.parquet"]
    assert shelf.open(f"{FOLDER}/part.parquet").read(0, 100) == b"content"
    shelf.remove(f"{FOLDER}/part.parquet")
    assert list(shelf.paths()) == []


def test_what_was_begun_and_abandoned_is_gone(shelf: LocalShelf) -> None:
    written = shelf.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    shelf.abandon(written)
    shelf.abandon(written)
    assert not written.exists()


def test_preparing_removes_what_a_crash_left_half_written(shelf: LocalShelf) -> None:
    written = shelf.begin(FOLDER, "part.tmp")
    written.write_bytes(b"half")
    shelf.prepare()
    assert not written.exists()


def test_a_finished_file_survives_a_power_cut(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    shelf = LocalShelf(tmp_path / "table", disk)
    shelf.prepare()
    shelf.make(FOLDER)
    written = shelf.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    shelf.finish(written, f"{FOLDER}/part.parquet")
    disk.power_cut(random.Random(1))
    assert shelf.open(f"{FOLDER}/part.parquet").read(0, 100) == b"content"


def test_a_refused_sync_is_reported(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    shelf = LocalShelf(tmp_path / "table", disk)
    shelf.prepare()
    shelf.make(FOLDER)
    written = shelf.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    disk.break_always(Fault.REFUSED)
    with pytest.raises(DiskError):
        shelf.finish(written, f"{FOLDER}/part.parquet")


def test_files_are_moved_and_adopted_and_empty_folders_go(shelf: LocalShelf, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / "a.parquet").write_bytes(b"a")
    shelf.adopt(staging, [f"{FOLDER}/a.parquet"])
    shelf.adopt(staging, [f"{FOLDER}/a.parquet"])
    shelf.make("base_seq=7")
    shelf.move(f"{FOLDER}/a.parquet", "base_seq=7/a.parquet")
    shelf.remove_empty_folders("base_seq=0")
    assert list(data_paths(shelf.directory, shelf.disk)) == ["base_seq=7/a.parquet"]
    assert sorted(path.name for path in shelf.directory.iterdir()) == ["base_seq=0", "base_seq=7"]
    assert not (shelf.directory / FOLDER).exists()
    shelf.drop()
    assert not shelf.directory.exists()
