"""While a store is unreachable, requests fail at once, except one now and then that tries it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from breakable_objects import BreakableObjects, ObjectFault
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.guarded import FIRST_PAUSE_S, LONGEST_PAUSE_S, GuardedObjects, Outage
from headwater.objects.object_error import ObjectError, Problem


class Driven:
    """A clock that the test sets."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def inner(tmp_path: Path) -> BreakableObjects:
    return BreakableObjects(Bucket(BucketAddress(f"file://{tmp_path}/objects")))


@pytest.fixture
def clock() -> Driven:
    return Driven()


@pytest.fixture
def objects(inner: BreakableObjects, clock: Driven) -> GuardedObjects:
    return GuardedObjects(inner, Outage(inner.address, clock))


def test_what_is_known_of_one_object_is_no_outage(objects: GuardedObjects) -> None:
    with pytest.raises(ObjectError, match="no such object"):
        objects.get("nothing")
    objects.put_if_absent("a", b"1")
    with pytest.raises(ObjectError, match="exists already"):
        objects.put_if_absent("a", b"2")
    assert objects.outage.error is None
    assert (objects.counts.requests, objects.counts.failures) == (3, 0), "these are answers"


def test_requests_of_all_prefixes_are_counted_and_failures_apart(
    objects: GuardedObjects, inner: BreakableObjects
) -> None:
    objects.put("a", b"1")
    objects.below("b").put("c", b"1")
    inner.break_always(ObjectFault.REFUSED)
    for _ in range(3):
        with pytest.raises(ObjectError, match="cannot be reached"):
            objects.get("a")
    assert (objects.counts.requests, objects.counts.failures) == (3, 1), "two were not sent at all"


def test_requests_fail_at_once_until_one_may_try(
    objects: GuardedObjects, inner: BreakableObjects, clock: Driven
) -> None:
    inner.break_always(ObjectFault.REFUSED)
    for _ in range(5):
        with pytest.raises(ObjectError, match="cannot be reached"):
            objects.get("a")
    assert inner.requests == 1
    clock.now_s += FIRST_PAUSE_S
    for _ in range(5):
        with pytest.raises(ObjectError, match="cannot be reached"):
            objects.below("folder").get("a")
    assert inner.requests == 2, "all prefixes share the outage"


def test_the_pause_grows_and_ends_with_the_first_answer(
    objects: GuardedObjects, inner: BreakableObjects, clock: Driven, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    inner.break_always(ObjectFault.THROTTLED)
    for _ in range(20):
        clock.now_s += LONGEST_PAUSE_S
        with pytest.raises(ObjectError, match="fewer requests"):
            objects.get("a")
    assert inner.requests == 20
    inner.heal()
    with pytest.raises(ObjectError, match="fewer requests"):
        objects.get("a")
    clock.now_s += LONGEST_PAUSE_S
    with pytest.raises(ObjectError) as error:
        objects.get("a")
    assert error.value.problem is Problem.MISSING, "which is an answer"
    objects.put("a", b"1")
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert "messages stay in the logs of their streams" in said[0]
    assert "works again after 300 s" in said[1]


def test_readiness_is_asked_for_only_after_an_outage(
    objects: GuardedObjects, inner: BreakableObjects, clock: Driven
) -> None:
    objects.require_ready("key")
    assert inner.requests == 0
    inner.break_always(ObjectFault.REFUSED)
    with pytest.raises(ObjectError):
        objects.put("a", b"")
    with pytest.raises(ObjectError):
        objects.require_ready("key")
    inner.heal()
    clock.now_s += LONGEST_PAUSE_S
    objects.require_ready("key")
    assert objects.outage.error is None
