"""What holds for every place of a table's files: a folder of this machine and a bucket."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.guarded import GuardedObjects, Outage
from headwater.table.object_shelf import ObjectShelf
from headwater.table.range_cache import RangeCache
from headwater.table.shelf import LocalShelf, Shelf

FOLDER = "base_seq=1"


@pytest.fixture(params=["folder", "bucket"])
def shelf(request: pytest.FixtureRequest, tmp_path: Path) -> Shelf:
    directory = tmp_path / "store" / "table"
    made: Shelf = LocalShelf(directory, RealDisk(sync=False))
    if request.param == "bucket":
        address = BucketAddress(f"file://{tmp_path}/objects")
        guarded = GuardedObjects(Bucket(address), Outage(address.url, time.monotonic))
        cache = RangeCache(tmp_path / "cache", 1 << 20)
        made = ObjectShelf(guarded, address, directory, tmp_path / "scratch", cache)
    made.prepare()
    return made


def finished(shelf: Shelf, path: str, content: bytes) -> str:
    """Write a file and finish it under its path."""
    folder, name = path.rsplit("/", 1)
    shelf.make(folder)
    written = shelf.begin(folder, f"{name}.tmp")
    written.write_bytes(content)
    shelf.finish(written, path)
    assert not written.exists()
    return path


def content_of(shelf: Shelf, path: str) -> bytes:
    return shelf.open(path).tail(1 << 20)[0]


def test_a_file_is_there_only_once_it_is_finished(shelf: Shelf) -> None:
    shelf.make(FOLDER)
    written = shelf.begin(FOLDER, "a.parquet.tmp")
    written.write_bytes(b"one")
    assert list(shelf.paths()) == []
    shelf.finish(written, f"{FOLDER}/a.parquet")
    assert list(shelf.paths()) == [f"{FOLDER}/a.parquet"]
    assert content_of(shelf, f"{FOLDER}/a.parquet") == b"one"


def test_a_file_that_is_abandoned_leaves_nothing(shelf: Shelf) -> None:
    shelf.make(FOLDER)
    written = shelf.begin(FOLDER, "a.parquet.tmp")
    written.write_bytes(b"half")
    shelf.abandon(written)
    shelf.abandon(written)
    assert (written.exists(), list(shelf.paths())) == (False, [])


def test_a_moved_file_is_under_its_new_path_alone(shelf: Shelf) -> None:
    path = finished(shelf, f"{FOLDER}/a.parquet", b"one")
    shelf.make("base_seq=9")
    shelf.move(path, "base_seq=9/a.parquet")
    assert list(shelf.paths()) == ["base_seq=9/a.parquet"]
    assert content_of(shelf, "base_seq=9/a.parquet") == b"one"


def test_files_are_adopted_once_from_a_staging_folder(shelf: Shelf, tmp_path: Path) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    paths = [f"{FOLDER}/a.parquet", "base_seq=5/b.parquet"]
    for path in paths:
        (staging / Path(path).name).write_bytes(path.encode())
    shelf.adopt(staging, paths)
    shelf.adopt(staging, paths)
    assert sorted(shelf.paths()) == sorted(paths)
    assert [content_of(shelf, path) for path in paths] == [path.encode() for path in paths]
    assert list(staging.iterdir()) == []


def test_a_removed_file_is_gone_and_the_others_stay(shelf: Shelf) -> None:
    gone, kept = (finished(shelf, f"{FOLDER}/{name}.parquet", b"x") for name in "ab")
    shelf.remove(gone)
    shelf.remove_empty_folders("")
    assert list(shelf.paths()) == [kept]


def test_a_table_that_is_dropped_has_no_file(shelf: Shelf) -> None:
    finished(shelf, f"{FOLDER}/a.parquet", b"x")
    shelf.drop()
    shelf.prepare()
    assert list(shelf.paths()) == []
