"""A task finds an engine's bucket by its plan and the credentials in the host's settings file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from headwater.errors import BusError
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.replication import handover
from headwater.replication.work import TablesPlace
from headwater.replication.worker.task_bucket import TaskBucket, open_bucket, open_file
from headwater.settings import Settings
from headwater.table.stored_bytes import ObjectBytes
from seaweed import ACCESS_KEY, SECRET_KEY, SeaweedServer


def test_addresses_below_the_tables_are_objects_and_all_others_are_paths(tmp_path: Path) -> None:
    bucket = TaskBucket(Bucket(BucketAddress(f"file://{tmp_path}/prod")))
    assert bucket.key(f"file://{tmp_path}/prod/$G/A/table/x.parquet") == "$G/A/table/x.parquet"
    assert not bucket.has(f"file://{tmp_path}/production/x")
    assert isinstance(open_file(bucket, f"file://{tmp_path}/prod/x"), ObjectBytes)
    assert open_file(bucket, f"{tmp_path}/prod/x") == tmp_path / "prod" / "x"
    assert open_file(None, "/lake/x") == Path("/lake/x")
    assert open_bucket(None) is None


def test_credentials_come_from_the_file_alone(
    tmp_path: Path, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = seaweed_server.new_bucket()
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / handover.NAME
    handover.write(path, Settings(tables=address.url, tables_endpoint=address.endpoint), "hidden")
    for name in seaweed_server.environment:
        monkeypatch.delenv(name)
    place = TablesPlace(url=address.url, endpoint=address.endpoint or "", config=str(path))
    assert ACCESS_KEY not in str(place)
    bucket = open_bucket(place)
    assert bucket is not None
    bucket.objects.put("a", b"one")
    assert bucket.objects.get("a") == b"one"
    assert SECRET_KEY not in repr(handover.bucket_address(str(path), replace(address)))


def test_a_bucket_stays_open_until_its_credentials_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "first")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "one")
    settings = Settings(tables="s3://lake/prod", tables_region="eu-central-1")
    path = tmp_path / handover.NAME
    place = TablesPlace(url="s3://lake/prod", region="eu-central-1", config=str(path))
    handover.write(path, settings, "hidden")
    first = open_bucket(place)
    assert open_bucket(place) is first
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "two")
    handover.write(path, settings, "hidden")
    second = open_bucket(place)
    assert second is not first
    assert open_bucket(place) is second


def test_without_its_file_a_task_says_what_it_misses(tmp_path: Path) -> None:
    place = TablesPlace(url="s3://lake/prod", config=str(tmp_path / "none.toml"))
    with pytest.raises(BusError, match=r"none\.toml.*transfers need its credentials"):
        open_bucket(place)
