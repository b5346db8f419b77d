"""What holds for every object store: a local folder, SeaweedFS, Azurite, and the one that breaks in tests."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from azurite import AzuriteServer
from breakable_objects import BreakableObjects
from headwater.objects import preflight
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError, Problem
from headwater.objects.objects import Objects
from seaweed import SeaweedServer

KINDS = ("file", "s3", "az", "breakable")


@pytest.fixture(params=KINDS)
def objects(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Objects]:
    if request.param == "s3":
        server: SeaweedServer = request.getfixturevalue("seaweed_server")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in server.environment.items():
                patch.setenv(name, value)
            yield Bucket(server.new_bucket().below("a prefix/$G"))
        return
    if request.param == "az":
        azure: AzuriteServer = request.getfixturevalue("azurite_server")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in azure.environment.items():
                patch.setenv(name, value)
            yield Bucket(azure.new_container().below("a prefix/$G"))
        return
    folder = Bucket(BucketAddress(f"file://{tmp_path}/objects"))
    yield BreakableObjects(folder) if request.param == "breakable" else folder


def reopened(objects: Objects) -> Objects:
    """Return the same objects through a client of their own, as another process has it."""
    return Bucket(objects.location) if isinstance(objects, Bucket) else objects.below("")


def problem_of(error: pytest.ExceptionInfo[ObjectError]) -> Problem:
    return error.value.problem


def test_what_was_put_is_read_back_by_another_client(objects: Objects) -> None:
    objects.put("a/b=1/c d", b"one")
    objects.put("a/b=1/c d", b"two")
    assert reopened(objects).get("a/b=1/c d") == b"two"


def test_an_empty_object_is_an_object(objects: Objects) -> None:
    objects.put("empty", b"")
    assert objects.get("empty") == b""
    assert objects.head("empty").size == 0


def test_a_range_ends_where_the_object_ends(objects: Objects) -> None:
    objects.put("digits", b"0123456789")
    assert objects.get_range("digits", 2, 3) == b"234"
    assert objects.get_range("digits", 8, 100) == b"89"
    assert objects.get_range("digits", 3, 0) == b""
    assert objects.get_tail("digits", 4) == (b"6789", 10)
    assert objects.get_tail("digits", 400) == (b"0123456789", 10)


def test_a_file_becomes_an_object_however_large(objects: Objects, tmp_path: Path) -> None:
    content = bytes(range(256)) * (80 << 10)  # 20 MiB: several parts
    (tmp_path / "file").write_bytes(content)
    objects.put_file("large", tmp_path / "file")
    assert objects.head("large").size == len(content)
    assert objects.get("large") == content


@pytest.mark.parametrize("call", ["get", "head"])
def test_a_missing_object_is_reported_as_missing(objects: Objects, call: str) -> None:
    with pytest.raises(ObjectError, match="there is no such object") as error:
        getattr(objects, call)("nothing")
    assert problem_of(error) is Problem.MISSING
    assert not error.value.is_outage


def test_only_the_first_put_if_absent_succeeds(objects: Objects) -> None:
    objects.put_if_absent("once", b"first")
    with pytest.raises(ObjectError) as error:
        reopened(objects).put_if_absent("once", b"second")
    assert problem_of(error) in (Problem.EXISTS, Problem.CHANGED)
    assert objects.get("once") == b"first"


def test_put_if_match_replaces_only_what_was_seen(objects: Objects) -> None:
    first = objects.put("cell", b"one")
    second = objects.put_if_match("cell", b"two", first)
    assert second != first
    with pytest.raises(ObjectError) as error:
        reopened(objects).put_if_match("cell", b"three", first)
    assert problem_of(error) is Problem.CHANGED
    assert objects.get("cell") == b"two"
    assert objects.head("cell").e_tag == second


def test_of_racing_put_if_match_calls_one_succeeds(objects: Objects) -> None:
    seen = objects.put("cell", b"start")

    def replace(racer: int) -> bytes | None:
        try:
            reopened(objects).put_if_match("cell", b"%d" % racer, seen)
        except ObjectError as error:
            if error.problem is not Problem.CHANGED:
                raise
            return None
        return b"%d" % racer

    with ThreadPoolExecutor(8) as threads:
        winners = [each for each in threads.map(replace, range(8)) if each is not None]
    assert winners == [objects.get("cell")]


def test_a_listing_has_every_object_below_its_prefix(objects: Objects) -> None:
    assert list(objects.list()) == []
    for key in ("a/1", "a/b/2", "ab/3", "c"):
        objects.put(key, key.encode())
    assert sorted(info.key for info in objects.list()) == ["a/1", "a/b/2", "ab/3", "c"]
    assert sorted((info.key, info.size) for info in objects.list("a")) == [("a/1", 3), ("a/b/2", 5)]
    assert list(objects.list("none")) == []


def test_a_long_listing_is_whole(objects: Objects) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda n: objects.put(f"many/{n:04}", b"x"), range(1100)))
    assert len({info.key for info in objects.list("many")}) == 1100


def test_what_is_deleted_is_gone_and_may_be_deleted_again(objects: Objects) -> None:
    objects.put("gone", b"x")
    objects.delete("gone")
    objects.delete("gone")
    assert list(objects.list()) == []


def test_a_copy_is_what_its_source_was(objects: Objects) -> None:
    objects.put("source", b"x" * 1000)
    objects.copy("source", "folder/target")
    objects.delete("source")
    assert objects.get("folder/target") == b"x" * 1000


def test_objects_below_a_prefix_are_apart_from_others(objects: Objects) -> None:
    inside = objects.below("inside")
    inside.put("key", b"in")
    objects.put("key", b"out")
    assert objects.get("inside/key") == inside.get("key") == b"in"
    assert [info.key for info in inside.list()] == ["key"]
    assert inside.address == f"{objects.address}/inside"


def test_the_preflight_leaves_nothing_behind(objects: Objects) -> None:
    preflight.check(objects)
    assert list(objects.list()) == []


def test_no_message_holds_the_secret(objects: Objects) -> None:
    with pytest.raises(ObjectError) as error:
        objects.get(uuid4().hex)
    secret = "not-a-secret-of-anyone"
    assert secret not in str(error.value) + repr(error.value) + repr(objects)
    assert error.value.__cause__ is None
