"""What holds for files that wait for a table, in a folder and in a bucket."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.disk import RealDisk
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.table.staging import BEGUN, LocalStaging, ObjectStaging, Staging


@pytest.fixture(params=["folder", "bucket"])
def staging(request: pytest.FixtureRequest, tmp_path: Path) -> Staging:
    """A staging with two files."""
    made: Staging = LocalStaging(tmp_path / "staging", RealDisk(sync=False))
    if request.param == "bucket":
        bucket = Bucket(BucketAddress(f"file://{tmp_path}/table"))
        made = ObjectStaging(bucket, tmp_path / "staging")
    folder = Path(made.address.removeprefix("file://"))
    folder.mkdir(parents=True)
    (folder / "a").write_bytes(b"one")
    (folder / "b").write_bytes(b"four")
    return made


def test_files_are_found_by_name_with_their_sizes(staging: Staging) -> None:
    assert sorted(staging.names()) == ["a", "b"]
    assert [staging.size(name) for name in ("a", "b", "c")] == [3, 4, None]
    assert staging.open("b").read(1, 2) == b"ou"


def test_a_discarded_file_is_gone_and_may_be_discarded_again(staging: Staging) -> None:
    staging.discard("a")
    staging.discard("a")
    assert list(staging.names()) == ["b"]


def test_files_that_are_set_aside_are_kept(staging: Staging, tmp_path: Path) -> None:
    staging.set_aside(["a"])
    assert list(staging.names()) == ["b"]
    (kept,) = [path for path in tmp_path.rglob("a") if "unclaimed" in path.parent.name]
    assert kept.read_bytes() == b"one"


def test_no_folder_is_no_file(tmp_path: Path) -> None:
    assert list(LocalStaging(tmp_path / "none", RealDisk()).names()) == []


def test_while_the_bucket_is_away_nothing_is_taken_for_missing(tmp_path: Path) -> None:
    objects = BreakableObjects(Bucket(BucketAddress(f"file://{tmp_path}/table")))
    staging = ObjectStaging(objects, tmp_path / "staging")
    objects.put("_staging/a", b"one")
    objects.break_always(ObjectFault.REFUSED)
    with pytest.raises(ObjectError, match="cannot be reached"):
        staging.size("a")
    staging.discard("a")
    objects.heal()
    assert staging.size("a") == 3


def test_a_file_that_the_engine_writes_is_there_once_it_is_finished(staging: Staging, tmp_path: Path) -> None:
    begun = staging.begin(f"new{BEGUN}")
    begun.write_bytes(b"content")
    staging.finish(begun, "new")
    assert staging.open("new").read(0, 7) == b"content"
    assert not begun.exists()
    assert sorted(staging.names()) == ["a", "b", "new"]


def test_what_a_crash_left_unfinished_is_removed_at_the_next_open(staging: Staging) -> None:
    abandoned, left = staging.begin(f"one{BEGUN}"), staging.begin(f"two{BEGUN}")
    for path in (abandoned, left):
        path.write_bytes(b"half")
    staging.abandon(abandoned)
    assert not abandoned.exists()
    staging.remove_begun()
    for name in staging.names():
        staging.discard(name)
    assert not left.exists()
