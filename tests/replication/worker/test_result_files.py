"""Where a task finishes its files: whole under their names, and nothing else left behind."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.replication.worker.result_files import (
    COPIES_AT_ONCE,
    BucketFiles,
    FolderFiles,
    ResultFiles,
    result_files,
)
from headwater.replication.worker.task_bucket import TaskBucket


class Places:
    """A bucket and a folder on one disk, and which of the two is the target's."""

    def __init__(self, tmp_path: Path, *, in_bucket: bool) -> None:
        root = tmp_path / "prod"
        self.objects = BreakableObjects(Bucket(BucketAddress(f"file://{root}")))
        self.origin = root / "O" / "table" / "o.parquet"
        self.origin.parent.mkdir(parents=True)
        self.origin.write_bytes(b"origin")
        self.staging = root / "T" / "_staging"
        self.source = f"file://{self.origin}" if in_bucket else str(self.origin)
        staging = f"file://{self.staging}" if in_bucket else str(self.staging)
        self.files = result_files(TaskBucket(self.objects) if in_bucket else None, staging)

    def content(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in self.staging.iterdir()}


@pytest.fixture(params=[False, True], ids=["folder", "bucket"])
def places(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    return Places(tmp_path, in_bucket=request.param)


def written(files: ResultFiles, name: str, content: bytes) -> None:
    path = files.begin(f"{name}.tmp")
    path.write_bytes(content)
    files.finish(path, name)


def test_the_place_is_chosen_by_the_address(tmp_path: Path) -> None:
    assert isinstance(Places(tmp_path / "a", in_bucket=True).files, BucketFiles)
    assert isinstance(Places(tmp_path / "b", in_bucket=False).files, FolderFiles)


def test_files_are_written_copied_and_removed(places: Places, tmp_path: Path) -> None:
    files = places.files
    written(files, "a.parquet", b"one")
    files.copy(places.source, "b.parquet")
    files.write("c.sums", b"sums")
    files.settle()
    assert places.content() == {"a.parquet": b"one", "b.parquet": b"origin", "c.sums": b"sums"}
    files.remove("a.parquet")
    files.remove("a.parquet")
    files.abandon(files.begin("d.tmp"))
    files.close()
    assert sorted(places.content()) == ["b.parquet", "c.sums"]
    assert list((tmp_path / "scratch").iterdir()) == []
    assert places.origin.read_bytes() == b"origin"


@pytest.mark.parametrize("fault", [ObjectFault.REFUSED, ObjectFault.LATE, ObjectFault.THROTTLED])
def test_a_put_or_copy_with_an_unknown_outcome_fails_and_leaves_nothing_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: ObjectFault
) -> None:
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    for operation in ("write", "copy"):
        places = Places(tmp_path / operation, in_bucket=True)
        places.objects.break_at(1, fault, operation)
        if operation == "write":
            written(places.files, "a.parquet", b"one")
        else:
            places.files.copy(places.source, "b.parquet")
        with pytest.raises(ObjectError):
            places.files.settle()
        places.files.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_bucket_makes_copies_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(tmp_path, in_bucket=True)
    together = threading.Barrier(COPIES_AT_ONCE, timeout=60)
    copy = places.objects.copy

    def copied(source: str, target: str) -> None:
        together.wait()
        copy(source, target)

    monkeypatch.setattr(places.objects, "copy", copied)
    for number in range(COPIES_AT_ONCE):
        places.files.copy(places.source, f"{number}.parquet")
    places.files.settle()
    assert len(places.content()) == COPIES_AT_ONCE
    places.files.close()


def test_a_bucket_gets_a_file_while_the_next_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = Places(tmp_path, in_bucket=True)
    is_next_written = threading.Event()
    put_file = places.objects.put_file

    def put(key: str, path: Path) -> None:
        assert is_next_written.wait(60)
        put_file(key, path)

    monkeypatch.setattr(places.objects, "put_file", put)
    written(places.files, "a.parquet", b"one")
    written(places.files, "b.parquet", b"two")
    is_next_written.set()
    places.files.settle()
    assert places.content() == {"a.parquet": b"one", "b.parquet": b"two"}
    places.files.close()


def test_a_copy_that_ends_late_is_removed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(tmp_path, in_bucket=True)
    began, may_end = threading.Event(), threading.Event()
    copy = places.objects.copy

    def copied(source: str, target: str) -> None:
        began.set()
        may_end.wait(60)
        copy(source, target)

    monkeypatch.setattr(places.objects, "copy", copied)
    places.files.copy(places.source, "a.parquet")
    assert began.wait(60)
    threading.Timer(0.2, may_end.set).start()
    places.files.remove("a.parquet")
    places.files.close()
    assert may_end.is_set()
    assert not list(places.staging.iterdir())
