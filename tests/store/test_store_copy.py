"""A copied store holds what its source does, wherever it was copied to, and after any interruption."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.control.domain import Domain
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.store.copy_source import CopyError, StoreContents, read_copy, read_directory
from headwater.store.store_copy import BucketTarget, CopyTarget, DirectoryTarget, copy
from headwater.store.verify import verify
from store import stores


@pytest.fixture
def source(tmp_path: Path) -> Path:
    asyncio.run(stores.make(tmp_path / "source"))
    return tmp_path / "source"


@pytest.fixture
def held(source: Path) -> stores.Held:
    return content(source)


def content(store: Path) -> stores.Held:
    found: stores.Held = {}

    async def read(domain: Domain) -> None:
        for name in stores.NAMES:
            found[name] = await stores.everything(domain.stream(name))

    asyncio.run(stores.on(store, read))
    return found


@pytest.fixture
def bucket(tmp_path: Path) -> Bucket:
    return Bucket(BucketAddress(f"file://{tmp_path}/objects"))


def copied(contents: StoreContents, target: CopyTarget) -> int:
    """Copy, and return how many bytes were reported."""
    done: list[int] = []
    copy(contents, target, done.append)
    return sum(done)


def test_a_store_goes_to_a_bucket_and_back(
    tmp_path: Path, source: Path, held: stores.Held, bucket: Bucket
) -> None:
    contents = read_directory(source)
    assert copied(contents, BucketTarget(bucket)) == 2 * contents.nbytes
    with pytest.raises(CopyError, match="is not empty"):
        copied(contents, BucketTarget(bucket))
    back = tmp_path / "back"
    copied(read_copy(bucket), DirectoryTarget(back))
    assert verify(back, stores.DISK, lambda said: None).findings == []
    assert content(back) == held
    with pytest.raises(CopyError, match="is not empty"):
        copied(read_directory(source), DirectoryTarget(back))
    assert content(source) == held


def test_tables_may_stay_in_the_bucket(tmp_path: Path, source: Path, bucket: Bucket) -> None:
    copied(read_directory(source), BucketTarget(bucket))
    back = tmp_path / "back"
    copied(read_copy(bucket).without_tables(), DirectoryTarget(back, bucket))
    assert (back / "$G" / "ORDERS" / "table").is_file()
    assert verify(back, stores.DISK, lambda said: None).findings == []
    again = tmp_path / "again"
    copied(read_directory(back), DirectoryTarget(again))
    assert verify(again, stores.DISK, lambda said: None).findings == []
    assert sorted(path.name for path in again.iterdir()) == sorted(
        path.name for path in back.iterdir() if path.name != "engine.lock"
    )


class Interrupted(Exception):
    """The copy was stopped."""


@pytest.mark.parametrize("kind", ["bucket", "directory"])
def test_an_interrupted_copy_is_continued_and_holds_nothing_old(
    tmp_path: Path, source: Path, bucket: Bucket, kind: str
) -> None:
    def make() -> CopyTarget:
        return BucketTarget(bucket) if kind == "bucket" else DirectoryTarget(tmp_path / "target")

    contents, left = read_directory(source), [5]

    def stop(count: int) -> None:
        left[0] -= 1
        if not left[0]:
            raise Interrupted

    with pytest.raises(Interrupted):
        copy(contents, make(), stop)

    async def more(domain: Domain) -> None:
        await stores.publish(domain.stream("ORDERS"), 5)
        await domain.stream("ORDERS").checkpoint()

    asyncio.run(stores.on(source, more))
    copied(read_directory(source), make())
    result = tmp_path / "target"
    if kind == "bucket":
        copied(read_copy(bucket), DirectoryTarget(result))
    assert content(result) == content(source)


def test_an_unfinished_copy_of_another_store_is_left_alone(tmp_path: Path, source: Path) -> None:
    DirectoryTarget(tmp_path / "target").begin("another")
    with pytest.raises(CopyError, match="is not empty"):
        copied(read_directory(source), DirectoryTarget(tmp_path / "target"))


def test_damage_on_the_way_is_found(tmp_path: Path, source: Path, bucket: Bucket) -> None:
    class Flipping(BucketTarget):
        def read(self, name: str) -> bytes:
            data = super().read(name)
            return bytes([data[0] ^ 1]) + data[1:] if name.endswith(".parquet") else data

    with pytest.raises(CopyError, match="is not what was copied"):
        copied(read_directory(source), Flipping(bucket))
    copied(read_directory(source), BucketTarget(bucket))
    key = next(info.key for info in bucket.list() if info.key.endswith(".parquet"))
    data = bytearray(bucket.get(key))
    data[9] ^= 1
    bucket.put(key, bytes(data))
    with pytest.raises(CopyError, match="is damaged, or has changed"):
        copied(read_copy(bucket), DirectoryTarget(tmp_path / "back"))
    bucket.delete(key)
    with pytest.raises(CopyError, match="has changed since the copy was made"):
        read_copy(bucket)
