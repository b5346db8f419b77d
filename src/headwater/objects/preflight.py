"""Tests a bucket before it is trusted: conditional writes that race, and reads of what was written."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from headwater.errors import Error
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects

RACERS = 16
FOLDER = ".headwater/preflight"


class UnfitBucketError(Error):
    """An object store does not keep a promise that tables need."""


def check(objects: Objects) -> None:
    """Return if the objects can hold tables; raise with one sentence if not, and leave nothing behind."""
    key = f"{FOLDER}/{uuid.uuid4().hex}"
    try:
        winners = _race(objects, key)
        if len(winners) != 1:
            raise UnfitBucketError(
                f"{objects.address} does not support conditional writes: {len(winners)} of {RACERS} writers "
                "that created one object at the same time succeeded, but exactly one must"
            )
        _require(objects, key, winners[0])
    finally:
        try:
            objects.delete(key)
        except ObjectError:
            pass  # what went wrong before is what matters


def _race(objects: Objects, key: str) -> list[bytes]:
    """Return what the writers that succeeded have written."""
    barrier = Barrier(RACERS)
    with ThreadPoolExecutor(RACERS) as threads:
        outcomes = threads.map(lambda racer: _create(objects, key, b"%d" % racer, barrier), range(RACERS))
        return [outcome for outcome in outcomes if outcome is not None]


def _create(objects: Objects, key: str, data: bytes, barrier: Barrier) -> bytes | None:
    barrier.wait()
    try:
        objects.put_if_absent(key, data)
    except ObjectError as error:
        if error.problem in (Problem.EXISTS, Problem.CHANGED):
            return None
        raise
    return data


def _require(objects: Objects, key: str, written: bytes) -> None:
    """Raise unless the object can be read, listed and removed."""
    if objects.get(key) != written:
        raise UnfitBucketError(f"{objects.address} does not return what was written")
    if key not in [info.key for info in objects.list(FOLDER)]:
        raise UnfitBucketError(f"{objects.address} does not list an object that was written")
    objects.delete(key)
    try:
        objects.get(key)
    except ObjectError as error:
        if error.problem is Problem.MISSING:
            return
        raise
    raise UnfitBucketError(f"{objects.address} returns an object that was removed")
