"""The files of a table in a folder of the disk."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.table.table_storage import LocalTableStorage, data_paths
from simulation.disks import BreakableDisk, Fault

FOLDER = "base_seq=0/source=a"


@pytest.fixture
def storage(tmp_path: Path) -> LocalTableStorage:
    storage = LocalTableStorage(tmp_path / "table", RealDisk())
    storage.prepare()
    storage.make(FOLDER)
    return storage


def test_a_file_is_there_once_it_is_finished(storage: LocalTableStorage) -> None:
    written = storage.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    assert list(storage.paths()) == []
    storage.finish(written, f"{FOLDER}/part.parquet")
    assert list(storage.paths()) == [f"{FOLDER}/part.parquet"]
    assert storage.open(f"{FOLDER}/part.parquet").read(0, 100) == b"content"
    storage.remove(f"{FOLDER}/part.parquet")
    assert list(storage.paths()) == []


def test_what_was_begun_and_abandoned_is_gone(storage: LocalTableStorage) -> None:
    written = storage.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    storage.abandon(written)
    storage.abandon(written)
    assert not written.exists()


def test_preparing_removes_what_a_crash_left_half_written(storage: LocalTableStorage) -> None:
    written = storage.begin(FOLDER, "part.tmp")
    written.write_bytes(b"half")
    storage.prepare()
    assert not written.exists()


def test_a_finished_file_survives_a_power_cut(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    storage = LocalTableStorage(tmp_path / "table", disk)
    storage.prepare()
    storage.make(FOLDER)
    written = storage.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    storage.finish(written, f"{FOLDER}/part.parquet")
    disk.power_cut(random.Random(1))
    assert storage.open(f"{FOLDER}/part.parquet").read(0, 100) == b"content"


def test_a_refused_sync_is_reported(tmp_path: Path) -> None:
    disk = BreakableDisk(tmp_path)
    storage = LocalTableStorage(tmp_path / "table", disk)
    storage.prepare()
    storage.make(FOLDER)
    written = storage.begin(FOLDER, "part.tmp")
    written.write_bytes(b"content")
    disk.break_always(Fault.REFUSED)
    with pytest.raises(DiskError):
        storage.finish(written, f"{FOLDER}/part.parquet")


def test_files_are_moved_and_adopted_and_empty_folders_go(storage: LocalTableStorage, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / "a.parquet").write_bytes(b"a")
    storage.adopt(staging, [f"{FOLDER}/a.parquet"])
    storage.adopt(staging, [f"{FOLDER}/a.parquet"])
    storage.make("base_seq=7")
    storage.move(f"{FOLDER}/a.parquet", "base_seq=7/a.parquet")
    storage.remove_empty_folders("base_seq=0")
    assert list(data_paths(storage.directory, storage.disk)) == ["base_seq=7/a.parquet"]
    assert sorted(path.name for path in storage.directory.iterdir()) == ["base_seq=0", "base_seq=7"]
    assert not (storage.directory / FOLDER).exists()
    storage.drop()
    assert not storage.directory.exists()
