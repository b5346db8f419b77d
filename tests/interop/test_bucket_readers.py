"""A stream's table in a bucket is read there by Headwater's readers, deltalake, Polars and DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

import headwater
from headwater.disk import RealDisk
from headwater.errors import SettingsError
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.objects.object_error import ObjectError
from headwater.spark.range_reader import GoneError
from headwater.table import Table
from headwater.table.remote_table import RemoteTable, write_remote
from seaweed import SeaweedServer
from table.samples import columns, message

MESSAGES = 40_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of two files on the disk."""
    table = Table.open(tmp_path_factory.mktemp("lake") / "table", RealDisk(sync=False))
    for first in (1, MESSAGES // 2 + 1):
        file = table.write(columns(range(first, first + MESSAGES // 2)))
        table.commit(add=[file])
    return table.directory


@pytest.fixture
def bucket(folder: Path, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    """The same table copied to a bucket."""
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    bucket = Bucket(seaweed_server.new_bucket().below("prod/$G/ORDERS"))
    for path in folder.rglob("*"):
        if path.is_file():
            bucket.put_file(f"table/{path.relative_to(folder)}", path)
    return bucket


def delta_of(bucket: Bucket) -> DeltaTable:
    address = bucket.location.below("table")
    return DeltaTable(address.delta_url)


def test_scan_finds_it_by_the_folder_of_the_stream_or_of_the_table(bucket: Bucket) -> None:
    import polars as pl

    for address in (bucket.address, f"{bucket.address}/table", f"{bucket.address}/"):
        rows = headwater.scan(address).filter(pl.col("seq") > MESSAGES - 2).collect()
        assert rows["seq"].to_list() == [MESSAGES - 1, MESSAGES]
        assert rows["data"].to_list() == [message(seq).data for seq in (MESSAGES - 1, MESSAGES)]


def test_read_and_duckdb_read_all_of_it(bucket: Bucket) -> None:
    assert headwater.read(bucket.address, columns=["seq"])["seq"].to_pylist() == list(range(1, MESSAGES + 1))
    few = headwater.read(bucket.address, columns=["seq"], filter=pc.field("seq") <= 2)
    assert few["seq"].to_pylist() == [1, 2]
    counted = headwater.scan(bucket.address, engine="duckdb").aggregate("count(*), max(seq)").fetchall()
    assert counted == [(MESSAGES, MESSAGES)]


def test_a_stream_s_folder_that_names_the_bucket_leads_there(bucket: Bucket, tmp_path: Path) -> None:
    write_remote(RealDisk(), tmp_path, RemoteTable(address=f"{bucket.address}/table"))
    assert headwater.read(tmp_path, columns=["seq"], limit=3)["seq"].to_pylist() == [1, 2, 3]


def test_deltalake_polars_and_duckdb_read_it_by_themselves(bucket: Bucket) -> None:
    import polars as pl

    delta = delta_of(bucket)
    assert delta.to_pyarrow_table(columns=["offset"]).num_rows == MESSAGES
    frame = pl.scan_delta(delta).select((pl.col("base_seq") + pl.col("offset")).alias("seq"))
    assert sorted(frame.collect()["seq"].to_list()) == list(range(1, MESSAGES + 1))
    with duckdb.connect() as connection:
        connection.register("messages", delta.to_pyarrow_dataset())
        assert connection.execute("SELECT count(*) FROM messages").fetchall() == [(MESSAGES,)]


def test_a_file_that_was_replaced_meanwhile_is_reported_as_such(bucket: Bucket) -> None:
    frame = headwater.scan(bucket.address)
    for info in list(bucket.list("table")):
        if info.key.endswith(".parquet"):
            bucket.delete(info.key)
    with pytest.raises(GoneError, match="replaced while it was read"):
        headwater.read(bucket.address)
    assert frame is not None


@pytest.mark.parametrize("path", ["nothing/here", "nothing/table"])
def test_where_there_is_no_stream_one_sentence_says_so(bucket: Bucket, path: str) -> None:
    with pytest.raises(SettingsError, match="there is no stream in s3://"):
        headwater.read(f"{bucket.address}/{path}")


def test_wrong_credentials_and_missing_buckets_are_one_sentence(
    bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ObjectError, match="the bucket does not exist"):
        headwater.read("s3://missing/prod/ORDERS")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ObjectError, match="the credentials were refused"):
        headwater.read(bucket.address)
    assert BucketAddress(bucket.address).allows_http
