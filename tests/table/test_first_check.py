"""A bucket that a new store cannot use is refused before anything is written, also by a whole engine."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from breakable_objects import LaxObjects
from headwater.app import serve
from headwater.bus.free_port import free_port
from headwater.errors import Error
from headwater.journal import opened_head
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.objects.preflight import UnfitBucketError
from headwater.settings import Settings
from headwater.table import first_check
from headwater.table.bucket_tables import BucketTables, TablePlaceError
from headwater.table.first_check import require_usable
from seaweed import SeaweedServer


def checked(
    address: BucketAddress, store: Path, *, has_journal: bool = False, may_be_away: bool = False
) -> None:
    require_usable(address, store, has_journal=has_journal, may_be_away=may_be_away)


def test_an_address_of_another_store_is_refused_unless_a_journal_decides(tmp_path: Path) -> None:
    address = BucketAddress(f"file://{tmp_path}/tables")
    checked(address, tmp_path / "new")
    BucketTables(address, tmp_path / "old", 0).claim("ID")
    with pytest.raises(TablePlaceError, match="holds the tables of another store, with id ID"):
        checked(address, tmp_path / "new")
    checked(address, tmp_path / "new", has_journal=True)
    checked(address, tmp_path / "old")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("has_journal", [False, True])
def test_an_address_below_that_of_a_store_is_refused_before_anything_is_written(
    tmp_path: Path, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch, *, has_journal: bool
) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    address = seaweed_server.new_bucket().below("prod")
    BucketTables(address, tmp_path / "old", 0).claim("ID")
    with pytest.raises(TablePlaceError, match=r"is below s3://.*/prod, which holds the tables of a store"):
        checked(address.below("sub"), tmp_path / "new", has_journal=has_journal)
    assert list(Bucket(address.below("sub")).list()) == []


def test_a_bucket_without_conditional_writes_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_check, "Bucket", lambda address: LaxObjects(Bucket(address)))
    with pytest.raises(UnfitBucketError, match="does not support conditional writes"):
        checked(BucketAddress(f"file://{tmp_path}/tables"), tmp_path / "new")


def test_only_a_standby_waits_for_a_bucket_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_check, "Bucket", lambda address: Bucket(address, retry_s=0.1))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    away = BucketAddress("s3://lake", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(ObjectError, match="cannot be reached"):
        checked(away, tmp_path / "new")
    checked(away, tmp_path / "new", may_be_away=True)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        ({"tables": "s3://none/t"}, "the bucket does not exist"),
        ({"tables": "s3://{bucket}/t", "tables_secret_access_key": "wrong"}, "the credentials were refused"),
        ({"tables": "s3://{bucket}/t", "journal": "s3://none/j"}, "the bucket does not exist"),
        ({"tables": "s3://{bucket}/t", "journal": "nats://127.0.0.1:{port}/J"}, "cannot open the journal"),
    ],
)
async def test_an_engine_ends_with_one_sentence_and_writes_nothing(
    tmp_path: Path,
    seaweed_server: SeaweedServer,
    monkeypatch: pytest.MonkeyPatch,
    said: dict[str, Any],
    sentence: str,
) -> None:
    monkeypatch.setattr(opened_head, "PATIENCE_S", 0.0)
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    address = seaweed_server.new_bucket()
    names = {"bucket": address.url.removeprefix("s3://"), "port": free_port()}
    values: dict[str, Any] = {key: value.format(**names) for key, value in said.items()}
    if "tables_secret_access_key" in values:
        values["tables_access_key_id"] = "headwater-tests"
    store = tmp_path / "store"
    store.mkdir()
    settings = Settings(store=store, port=0, tables_endpoint=seaweed_server.endpoint, **values)
    with pytest.raises(Error, match=sentence) as refused:
        await asyncio.wait_for(serve(settings), 60)
    assert "\n" not in str(refused.value)
    assert "wrong" not in str(refused.value)
    assert {path.name for path in store.rglob("*")} <= {"engine.lock"}
    assert list(Bucket(address).list()) == []
