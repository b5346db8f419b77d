"""Damaged objects of a table are kept where no reader of tables looks."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.store.bucket_quarantine import PREFIX, BucketQuarantine


def test_objects_and_folders_are_moved_and_missing_ones_left_out(tmp_path: Path) -> None:
    bucket = Bucket(BucketAddress(f"file://{tmp_path}/table"))
    for key in ("_delta_log/0.json", "_delta_log/1.json", "a/x.parquet", "a/y.parquet"):
        bucket.put(key, key.encode())
    aside = BucketQuarantine(bucket)
    for name in ("_delta_log", "a/x.parquet", "none"):
        aside.take(name)
    kept = sorted(info.key for info in bucket.list())
    assert kept.pop() == "a/y.parquet"
    assert [key.split("/", 2)[2] for key in kept] == ["_delta_log/0.json", "_delta_log/1.json", "a/x.parquet"]
    assert all(f"{bucket.address}/{key}".startswith(f"{aside.address}/") for key in kept)
    assert bucket.get(kept[0]) == b"_delta_log/0.json"
    assert aside.address.startswith(f"{bucket.address}/{PREFIX}/")


def test_an_object_stays_where_it_is_until_it_is_copied(tmp_path: Path) -> None:
    objects = BreakableObjects(Bucket(BucketAddress(f"file://{tmp_path}/table")))
    objects.put("a", b"one")
    objects.break_at(1, ObjectFault.REFUSED, "copy")
    with pytest.raises(ObjectError):
        BucketQuarantine(objects).take("a")
    assert objects.get("a") == b"one"
    BucketQuarantine(objects).take("a")
    assert [info.key.rpartition("/")[2] for info in objects.list(PREFIX)] == ["a"]
