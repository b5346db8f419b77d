"""An engine that another one has replaced at its prefix commits and removes nothing any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.errors import Error
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.table.prefix_owner import CHECK_S, OWNER, PrefixOwner, PrefixOwnerRecord


@pytest.fixture
def objects(tmp_path: Path) -> BreakableObjects:
    return BreakableObjects(Bucket(BucketAddress(f"file://{tmp_path}/objects")))


def owner(objects: BreakableObjects, epoch: int = 1) -> PrefixOwner:
    return PrefixOwner(objects, "store", epoch, Error)


def test_the_engine_that_starts_last_owns_the_prefix(objects: BreakableObjects) -> None:
    first, second = owner(objects), owner(objects, 2)
    first.take()
    first.require()
    second.take()
    with pytest.raises(Error, match=r"process \d+ on .* uses file://.*, with epoch 2"):
        first.require()
    second.require()
    third = owner(objects, 1)
    third.take()
    with pytest.raises(Error, match="with epoch 1"):
        second.require()


def test_a_commit_relies_on_a_check_for_a_while_and_a_removal_does_not(objects: BreakableObjects) -> None:
    first = owner(objects)
    first.take()
    first.require()
    owner(objects).take()
    first.require(within_s=3600)
    with pytest.raises(Error, match="uses file://"):
        first.require(within_s=0)
    assert CHECK_S <= 1


def test_a_write_that_was_done_and_reported_as_failed_is_ours(objects: BreakableObjects) -> None:
    first = owner(objects)
    objects.break_at(1, ObjectFault.LATE, "write")
    with pytest.raises(ObjectError):
        first.take()
    first.require()
    second = owner(objects)
    second.take()
    with pytest.raises(Error, match="uses file://"):
        first.require()


def test_a_bucket_that_was_away_is_claimed_by_the_first_commit(objects: BreakableObjects) -> None:
    first, second = owner(objects), owner(objects)
    second.take()
    objects.break_always(ObjectFault.REFUSED)
    with pytest.raises(ObjectError):
        first.take()
    objects.heal()
    first.require()
    with pytest.raises(Error, match="uses file://"):
        second.require()


@pytest.mark.parametrize("damage", ["removed", "damaged"])
def test_a_record_that_is_lost_is_written_again(objects: BreakableObjects, damage: str) -> None:
    first = owner(objects)
    first.take()
    if damage == "removed":
        objects.delete(OWNER)
    else:
        objects.put(OWNER, b"rubbish")
    first.require()
    first.require()
    owner(objects).take()
    with pytest.raises(Error, match="uses file://"):
        first.require()


def test_an_engine_that_was_replaced_does_not_return_by_one_damaged_answer(
    objects: BreakableObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = owner(objects), owner(objects, 2)
    first.take()
    second.take()
    answers = iter([b"damaged on the way"])
    get = objects.get
    monkeypatch.setattr(objects, "get", lambda key: next(answers, None) or get(key))
    with pytest.raises(Error, match="with epoch 2"):
        first.require()
    second.require()


def test_an_engine_does_not_replace_one_that_starts_while_the_record_is_missing(
    objects: BreakableObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = owner(objects), owner(objects, 2)
    first.take()
    objects.delete(OWNER)
    read = first._read

    def read_late() -> tuple[PrefixOwnerRecord | None, str]:
        found = read()
        monkeypatch.setattr(first, "_read", read)
        second.take()
        return found

    monkeypatch.setattr(first, "_read", read_late)
    with pytest.raises(Error, match="with epoch 2"):
        first.require()
    second.require()
