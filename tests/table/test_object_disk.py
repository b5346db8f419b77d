"""The small files of a table as objects: nothing to sync, and a commit is never replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from headwater.table.object_disk import ObjectDisk, create

ROOT = Path("/store/$G/ORDERS/table")
COMMIT = ROOT / "_delta_log" / "00000000000000000001.json"


@pytest.fixture
def objects(tmp_path: Path) -> BreakableObjects:
    return BreakableObjects(Bucket(BucketAddress(f"file://{tmp_path}/objects")))


@pytest.fixture
def disk(objects: BreakableObjects) -> ObjectDisk:
    return ObjectDisk(objects, ROOT)


def test_files_are_written_read_listed_and_removed(disk: ObjectDisk) -> None:
    disk.mkdir(ROOT / "a")
    disk.write_atomic(ROOT / "a" / "x", b"123")
    disk.write_atomic(ROOT / "a" / "x", b"12345")
    disk.write_atomic(ROOT / "b", b"")
    assert disk.read_all(ROOT / "a" / "x") == b"12345"
    assert disk.read(ROOT / "a" / "x", 3, 9) == b"45"
    assert disk.file_size(ROOT / "a" / "x") == 5
    assert (disk.list(ROOT), disk.list(ROOT / "a"), disk.list(ROOT / "c")) == (["a", "b"], ["x"], [])
    disk.rename(ROOT / "a" / "x", ROOT / "a" / "y")
    disk.sync_file(ROOT / "a" / "y")
    disk.sync_dir(ROOT / "a")
    disk.uncache(ROOT / "a" / "y")
    assert disk.list(ROOT / "a") == ["y"]
    disk.remove(ROOT / "b")
    disk.remove_tree(ROOT)
    assert disk.list(ROOT) == []


def test_a_commit_that_is_there_is_not_replaced(disk: ObjectDisk) -> None:
    disk.write_atomic(COMMIT, b"ours")
    disk.write_atomic(COMMIT, b"ours")
    with pytest.raises(ObjectError) as error:
        disk.write_atomic(COMMIT, b"theirs")
    assert error.value.problem is Problem.EXISTS
    assert disk.read_all(COMMIT) == b"ours"


def test_nothing_is_appended_to_an_object(disk: ObjectDisk) -> None:
    for call in (disk.open_append, disk.create_append):
        with pytest.raises(ObjectError, match="does not support"):
            call(ROOT / "log")


def test_a_create_that_was_done_late_is_ours(objects: BreakableObjects) -> None:
    objects.break_at(1, ObjectFault.LATE, "write")
    create(objects, "key", b"ours")
    assert objects.get("key") == b"ours"


def test_a_create_that_another_writer_was_faster_with_is_refused(objects: BreakableObjects) -> None:
    objects.break_at(1, ObjectFault.STALE, "write")
    with pytest.raises(ObjectError, match="exists already"):
        create(objects, "key", b"ours")
    assert objects.get("key") != b"ours"


def test_a_create_whose_outcome_cannot_be_seen_is_reported_as_failed(objects: BreakableObjects) -> None:
    objects.break_always(ObjectFault.LATE)
    with pytest.raises(ObjectError, match="cannot be reached"):
        create(objects, "key", b"ours")
