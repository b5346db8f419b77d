"""What holds for the bytes of every finished file: of this machine and in a bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.table.stored_bytes import LocalBytes, ObjectBytes, SeekableBytes, StoredBytes

Made = Callable[[bytes | None], StoredBytes]


@pytest.fixture(params=["local", "object"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Made:
    """Return how a file with this content is made; with None it does not exist."""
    bucket = Bucket(BucketAddress(f"file://{tmp_path}/objects"))

    def local(content: bytes | None) -> StoredBytes:
        if content is not None:
            (tmp_path / "file").write_bytes(content)
        return LocalBytes(tmp_path / "file")

    def remote(content: bytes | None) -> StoredBytes:
        if content is not None:
            bucket.put("file", content)
        return ObjectBytes(bucket, "file")

    return local if request.param == "local" else remote


def test_the_tail_ends_with_the_file_and_comes_with_its_size(made: Made) -> None:
    stored = made(b"0123456789")
    assert stored.tail(3) == (b"789", 10)
    assert stored.tail(100) == (b"0123456789", 10)
    assert stored.first_tail >= 8


def test_a_range_is_read_where_it_is(made: Made) -> None:
    stored = made(b"0123456789")
    assert (stored.read(0, 2), stored.read(4, 3), stored.read(8, 2)) == (b"01", b"456", b"89")
    assert stored.name.endswith("file")


def test_a_file_that_does_not_exist_is_an_error_at_once(made: Made) -> None:
    stored = made(None)
    with pytest.raises((OSError, ObjectError)):
        stored.tail(8)
    with pytest.raises((OSError, ObjectError)):
        stored.read(0, 1)


def test_arrow_reads_the_same_bytes_through_a_file_object(made: Made) -> None:
    file = SeekableBytes(made(b"0123456789"), 10)
    assert (file.read(2), file.tell(), file.seek(-3, 2), file.read()) == (b"01", 2, 7, b"789")
    assert (file.read(5), file.size()) == (b"", 10)
