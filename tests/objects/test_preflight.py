"""A bucket that does not keep its promises is found out before it is trusted."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, LaxObjects, ObjectFault
from headwater.objects import preflight
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.objects.preflight import UnfitBucketError


@pytest.fixture
def folder(tmp_path: Path) -> Bucket:
    return Bucket(BucketAddress(f"file://{tmp_path}/objects"))


class _Forgetful(BreakableObjects):
    """Writes are done some other time."""

    def get(self, key: str) -> bytes:
        return b"something else"


def test_a_bucket_without_conditional_writes_is_refused_in_one_sentence(folder: Bucket) -> None:
    with pytest.raises(UnfitBucketError, match="16 of 16 writers") as error:
        preflight.check(LaxObjects(folder))
    assert "\n" not in str(error.value)
    assert list(folder.list()) == []


def test_a_bucket_that_returns_something_else_is_refused(folder: Bucket) -> None:
    with pytest.raises(UnfitBucketError, match="does not return what was written"):
        preflight.check(_Forgetful(folder))


def test_a_bucket_that_cannot_be_reached_is_not_called_unfit(folder: Bucket) -> None:
    objects = BreakableObjects(folder)
    objects.break_always(ObjectFault.REFUSED)
    with pytest.raises(ObjectError, match="cannot be reached"):
        preflight.check(objects)


def test_one_writer_of_the_race_wins(folder: Bucket) -> None:
    objects = BreakableObjects(folder)
    preflight.check(objects)
    assert objects.requests >= preflight.RACERS


def test_every_fault_of_the_breakable_store_shows(folder: Bucket) -> None:
    objects = BreakableObjects(folder)
    objects.break_at(1, ObjectFault.LATE, "write")
    with pytest.raises(ObjectError, match="cannot be reached"):
        objects.put("late", b"1")
    assert objects.get("late") == b"1"
    objects.break_at(1, ObjectFault.STALE, "write")
    with pytest.raises(ObjectError, match="exists already"):
        objects.put_if_absent("stale", b"1")
    objects.break_always(ObjectFault.THROTTLED)
    with pytest.raises(ObjectError, match="SlowDown"):
        objects.get("late")
    objects.heal()
    assert objects.get("late") == b"1"
