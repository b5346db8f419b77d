"""A copied store holds what its source does, wherever it was copied to, and after any interruption."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.control.domain import Domain
from headwater.control.store_lock import StoreLock
from headwater.errors import StoreLockedError
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.store.copy_source import CopyError, StoreContents, read_copy, read_directory
from headwater.store.store_copy import UNFINISHED, BucketTarget, CopyTarget, DirectoryTarget, copy
from headwater.store.survey import read_catalog
from headwater.store.verify import verify
from headwater.table.prefix_owner import OWNER as PREFIX_OWNER
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
    assert {path.name for path in again.iterdir()} == {path.name for path in back.iterdir()}


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


def test_a_copy_that_an_engine_serves_is_never_copied_over(
    tmp_path: Path, source: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Bucket.delete

    def interrupted(self: Bucket, key: str) -> None:
        if key.endswith(UNFINISHED):
            raise Interrupted
        delete(self, key)

    monkeypatch.setattr(Bucket, "delete", interrupted)
    with pytest.raises(Interrupted):
        copied(read_directory(source), BucketTarget(bucket))
    monkeypatch.undo()
    # The copy is complete. An engine uses its tables and adds a file to one.
    copied(read_copy(bucket).without_tables(), DirectoryTarget(tmp_path / "head", bucket))
    bucket.put("$G/ORDERS/table/base_seq=1/new.parquet", b"acknowledged")
    with pytest.raises(CopyError, match="holds a complete copy"):
        copied(read_directory(source), BucketTarget(bucket))
    assert bucket.get("$G/ORDERS/table/base_seq=1/new.parquet") == b"acknowledged"


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_tables_of_an_engine_are_not_removed_by_a_copy_that_is_continued(
    source: Path, bucket: Bucket, when: str
) -> None:
    target = BucketTarget(bucket)

    def served(count: int = 0) -> None:
        bucket.put(PREFIX_OWNER, b"an engine")
        bucket.put("$G/NEW/table/new.parquet", b"acknowledged")

    target.begin(read_directory(source).store_id)
    if when == "before":
        served()
    with pytest.raises(CopyError, match="an engine uses"):
        copy(read_directory(source), BucketTarget(bucket), served)
    assert bucket.get("$G/NEW/table/new.parquet") == b"acknowledged"


def test_folders_on_another_disk_are_copied(tmp_path: Path, source: Path, held: stores.Held) -> None:
    for number, folder in enumerate(("ORDERS/log", "ORDERS/table", "EVENTS")):
        path = source / "$G" / folder
        path.rename(tmp_path / f"disk{number}")
        path.symlink_to(tmp_path / f"disk{number}")
    copied(read_directory(source), DirectoryTarget(tmp_path / "target"))
    assert verify(tmp_path / "target", stores.DISK, lambda said: None).problems == []
    assert content(tmp_path / "target") == held


def test_what_cannot_be_copied_ends_the_copy(source: Path) -> None:
    (source / "$G" / "ORDERS" / "log" / "00000000000000000009.log").symlink_to("nothing")
    with pytest.raises(CopyError, match="is neither a file nor a directory"):
        read_directory(source)


def killed_store(source: Path, target: Path) -> Path:
    """Return the store as a kill leaves it: the newest stream is only in the log of the catalog."""
    catalog = Catalog(source / "catalog.db")
    catalog.create(StreamRow("$G", "LAST", '{"name":"LAST"}', 1, "last", "LAST"))
    shutil.copytree(source, target)
    catalog.close()
    return target


def test_a_copy_that_ends_between_two_moves_is_no_store_and_is_continued(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, target = killed_store(source, tmp_path / "killed"), tmp_path / "target"
    assert (store / "catalog.db-wal").stat().st_size
    rename, moves = os.rename, [0]

    def interrupted(path: Path, to: Path) -> None:
        if Path(to).parent == target:
            moves[0] -= 1
            if moves[0] < 0:
                raise Interrupted
        rename(path, to)

    monkeypatch.setattr(os, "rename", interrupted)
    for number in range(20):
        moves[0] = number
        try:
            copied(read_directory(store), DirectoryTarget(target))
        except Interrupted:
            assert not (target / "catalog.db").exists()
        else:
            break
    monkeypatch.undo()
    assert number > 3
    assert "LAST" in [row.name for row in read_catalog(target).rows]
    assert content(target) == content(store)


def test_a_damaged_file_of_an_interrupted_copy_is_copied_again(tmp_path: Path, source: Path) -> None:
    def stop(count: int) -> None:
        if any(target.rglob("*.parquet")):
            raise Interrupted

    target = tmp_path / "target"
    with pytest.raises(Interrupted):
        copy(read_directory(source), DirectoryTarget(target), stop)
    stores.flip(next(target.rglob("*.parquet")))
    copied(read_directory(source), DirectoryTarget(target))
    assert content(target) == content(source)


def test_no_engine_starts_in_the_target_of_a_copy(tmp_path: Path, source: Path) -> None:
    target = tmp_path / "target"

    def start(count: int) -> None:
        with pytest.raises(StoreLockedError):
            StoreLock(target).take()

    copy(read_directory(source), DirectoryTarget(target), start)
    lock = StoreLock(target)
    lock.take()
    lock.release()
    assert content(target) == content(source)
