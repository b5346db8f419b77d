"""What holds for every place of a table's files: a folder of this machine and a bucket."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.guarded import GuardedObjects, Outage
from headwater.table.object_table_storage import ObjectTableStorage
from headwater.table.range_cache import RangeCache
from headwater.table.table_storage import LocalTableStorage, TableStorage

FOLDER = "base_seq=1"


@pytest.fixture(params=["folder", "bucket"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> TableStorage:
    directory = tmp_path / "store" / "table"
    made: TableStorage = LocalTableStorage(directory, RealDisk(sync=False))
    if request.param == "bucket":
        address = BucketAddress(f"file://{tmp_path}/objects")
        guarded = GuardedObjects(Bucket(address), Outage(address.url, time.monotonic))
        cache = RangeCache(tmp_path / "cache", 1 << 20)
        made = ObjectTableStorage(guarded, address, directory, tmp_path / "scratch", cache)
    made.prepare()
    return made


def finished(storage: TableStorage, path: str, content: bytes) -> str:
    """Write a file and finish it under its path."""
    folder, name = path.rsplit("/", 1)
    storage.make(folder)
    written = storage.begin(folder, f"{name}.tmp")
    written.write_bytes(content)
    storage.finish(written, path)
    assert not written.exists()
    return path


def content_of(storage: TableStorage, path: str) -> bytes:
    return storage.open(path).tail(1 << 20)[0]


def test_a_file_is_there_only_once_it_is_finished(storage: TableStorage) -> None:
    storage.make(FOLDER)
    written = storage.begin(FOLDER, "a.parquet.tmp")
    written.write_bytes(b"one")
    assert list(storage.paths()) == []
    storage.finish(written, f"{FOLDER}/a.parquet")
    assert list(storage.paths()) == [f"{FOLDER}/a.parquet"]
    assert content_of(storage, f"{FOLDER}/a.parquet") == b"one"


def test_a_file_that_is_abandoned_leaves_nothing(storage: TableStorage) -> None:
    storage.make(FOLDER)
    written = storage.begin(FOLDER, "a.parquet.tmp")
    written.write_bytes(b"half")
    storage.abandon(written)
    storage.abandon(written)
    assert (written.exists(), list(storage.paths())) == (False, [])


def test_a_moved_file_is_under_its_new_path_alone(storage: TableStorage) -> None:
    path = finished(storage, f"{FOLDER}/a.parquet", b"one")
    storage.make("base_seq=9")
    storage.move(path, "base_seq=9/a.parquet")
    assert list(storage.paths()) == ["base_seq=9/a.parquet"]
    assert content_of(storage, "base_seq=9/a.parquet") == b"one"


def test_files_are_adopted_once_from_a_staging_folder(storage: TableStorage, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    paths = [f"{FOLDER}/a.parquet", "base_seq=5/b.parquet"]
    for path in paths:
        (staging / Path(path).name).write_bytes(path.encode())
    storage.adopt(staging, paths)
    storage.adopt(staging, paths)
    assert sorted(storage.paths()) == sorted(paths)
    assert [content_of(storage, path) for path in paths] == [path.encode() for path in paths]
    assert list(staging.iterdir()) == []


def test_a_removed_file_is_gone_and_the_others_stay(storage: TableStorage) -> None:
    gone, kept = (finished(storage, f"{FOLDER}/{name}.parquet", b"x") for name in "ab")
    storage.remove(gone)
    storage.remove_empty_folders("")
    assert list(storage.paths()) == [kept]


def test_a_table_that_is_dropped_has_no_file(storage: TableStorage) -> None:
    finished(storage, f"{FOLDER}/a.parquet", b"x")
    storage.drop()
    storage.prepare()
    assert list(storage.paths()) == []
