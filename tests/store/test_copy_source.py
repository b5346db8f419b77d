"""What is copied of a store: everything that makes it, and nothing of this machine."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.journal.opened_head import MARK
from headwater.model.sealed import seal
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.store.copy_source import (
    MANIFEST,
    VERSION,
    CopiedFile,
    CopyError,
    CopyManifest,
    key_in,
    read_copy,
    read_directory,
    read_head,
    require_inside,
    require_unserved,
)
from headwater.store.store_copy import BucketTarget, DirectoryTarget, copy
from headwater.table.prefix_owner import OWNER
from store import stores


def bucket_in(tmp_path: Path) -> Bucket:
    return Bucket(BucketAddress(f"file://{tmp_path}/objects"))


def test_the_contents_are_head_and_tables_without_locks_and_secrets(tmp_path: Path) -> None:
    asyncio.run(stores.make(tmp_path))
    (tmp_path / "replicator.toml").write_text("secret")
    contents = read_directory(tmp_path)
    names = {item.name for item in contents.items}
    assert {"head/catalog.db", "head/stan.$G.db", "head/$G/ORDERS/identity.json"} <= names
    assert any(name.startswith("tables/$G/EVENTS/base_seq=") for name in names)
    assert not [name for name in names if "lock" in name or "replicator" in name]
    assert contents.streams == [("$G", "EVENTS"), ("$G", "ORDERS")]
    assert contents.nbytes == sum(len(item.read()) for item in contents.items)
    assert {item.name for item in contents.without_tables().items} < names


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CopyError, match="has no usable catalog: it is missing"):
        read_directory(tmp_path)
    (tmp_path / MARK).write_bytes(b"")
    with pytest.raises(CopyError, match="is a cache of a journal"):
        read_directory(tmp_path)
    with pytest.raises(CopyError, match="holds no complete copy of a store"):
        read_copy(bucket_in(tmp_path))


def test_a_copy_whose_tables_were_used_is_not_continued_from_its_old_head(tmp_path: Path) -> None:
    bucket = bucket_in(tmp_path)
    require_unserved(bucket)
    bucket.put(OWNER, b"an engine")
    with pytest.raises(CopyError, match="name the directory of its store"):
        require_unserved(bucket)


def test_keys_are_those_of_an_engine_s_tables(tmp_path: Path) -> None:
    folder, bucket = bucket_in(tmp_path), Bucket(BucketAddress("s3://lake/prod", "http://127.0.0.1:1"))
    for place in (folder, bucket):
        assert key_in(place, "tables/$G/A B/_delta_log/0.json") == "$G/A~20B/table/_delta_log/0.json"
        assert key_in(place, "head/$G/A B/log/1") == ".headwater/head/$G/A~20B/log/1"
    assert key_in(bucket, "tables/$G/A/_staging/x") == "$G/A/table/_staging/x"
    assert key_in(folder, "tables/$G/A/_staging/x") == "$G/A/staging/x"


def test_staged_files_that_a_log_may_name_go_with_the_table(tmp_path: Path) -> None:
    asyncio.run(stores.make(tmp_path / "store"))
    (tmp_path / "store" / "$G" / "ORDERS" / "staging").mkdir(exist_ok=True)
    (tmp_path / "store" / "$G" / "ORDERS" / "staging" / "x.parquet").write_bytes(b"staged")
    for place in (DirectoryTarget(tmp_path / "moved"), BucketTarget(bucket_in(tmp_path))):
        copy(read_directory(tmp_path / "store"), place, lambda count: None)
    assert (tmp_path / "moved" / "$G" / "ORDERS" / "staging" / "x.parquet").read_bytes() == b"staged"
    # A table in a folder has them where the engine looks for them, and they are read from there.
    assert (tmp_path / "objects" / "$G" / "ORDERS" / "staging" / "x.parquet").read_bytes() == b"staged"
    copy(
        read_copy(bucket_in(tmp_path)).without_tables(),
        DirectoryTarget(tmp_path / "below", bucket_in(tmp_path)),
        lambda count: None,
    )
    names = {item.name for item in read_directory(tmp_path / "below").items}
    assert "tables/$G/ORDERS/_staging/x.parquet" in names


def test_a_head_names_its_tables_which_must_be_in_the_bucket(tmp_path: Path) -> None:
    asyncio.run(stores.make(tmp_path / "store"))
    with pytest.raises(CopyError, match=r"the table of EVENTS is in .*/table, not below s3://lake/prod"):
        read_head(tmp_path / "store", BucketAddress("s3://lake/prod"))
    bucket = bucket_in(tmp_path)
    copy(read_directory(tmp_path / "store"), BucketTarget(bucket), lambda count: None)
    below = tmp_path / "below"
    copy(read_copy(bucket).without_tables(), DirectoryTarget(below, bucket), lambda count: None)
    head = read_head(below, bucket.location)
    assert head.streams == [("$G", "EVENTS"), ("$G", "ORDERS")]
    assert "head/$G/ORDERS/table" in {item.name for item in head.items}
    assert not [item for item in head.items if item.name.startswith("tables/")]


@pytest.mark.parametrize(
    "name",
    [
        "head/../outside",
        "head/$G/ORDERS/../../../../outside",
        "head//etc/cron.d/x",
        "head/$G/ORDERS/log/.",
        "head/replicator.toml",
        "head/$G/loose",
        "tables/$G/ORDERS",
        "tables/../../outside/x",
        "tables/$G/ORDERS/a\0b",
        "outside",
        "/etc/passwd",
        "",
    ],
)
def test_a_manifest_cannot_name_files_outside_the_store(tmp_path: Path, name: str) -> None:
    bucket = bucket_in(tmp_path)
    files = [CopiedFile("head/catalog.db", 1, 0), CopiedFile(name, 7, 0)]
    bucket.put(MANIFEST, seal(CopyManifest(store="x", files=files), VERSION))
    with pytest.raises(CopyError, match="is not the name of a file of a store"):
        read_copy(bucket)


def test_every_file_of_a_store_has_a_name_that_is_accepted(tmp_path: Path) -> None:
    asyncio.run(stores.make(tmp_path))
    for item in read_directory(tmp_path).items:
        require_inside(item.name)
