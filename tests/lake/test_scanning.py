"""A stream is scanned by Polars, DuckDB and Arrow with the sequences, times and headers of its API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nats
import pyarrow.dataset as ds
import pytest

import headwater
from headwater.errors import SettingsError
from headwater.lake import dataset
from headwater.spark.range_reader import read_batches
from lake.stores import ORDERS, lake


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream's folder, left behind by an engine that has stopped."""
    directory = tmp_path_factory.mktemp("lake")

    async def written() -> Path:
        async with lake(directory) as running:
            return running.store / "$G" / "ORDERS"

    return asyncio.run(written())


def test_polars_sees_sequences_times_and_headers(folder: Path) -> None:
    import polars as pl

    rows = headwater.scan(folder).filter(pl.col("seq") > ORDERS - 2).collect()
    assert rows.columns == ["seq", "subject", "time", "nanos", "headers", "data"]
    assert rows["seq"].to_list() == [ORDERS - 1, ORDERS]
    assert rows["data"].to_list() == [b"59", b"60"]
    assert rows["subject"].to_list() == ["orders.2", "orders.0"]
    assert rows["headers"].to_list()[1] == {"Number": ["60"]}
    assert abs(rows["time"].to_list()[1] - datetime.now(UTC)) < timedelta(hours=1)


def test_duckdb_filters_and_counts(folder: Path) -> None:
    orders = headwater.scan(folder, engine="duckdb")
    assert orders.filter("subject = 'orders.1'").aggregate("count(*)").fetchall() == [(ORDERS // 3,)]


def test_arrow_reads_only_the_columns_asked_for(folder: Path) -> None:
    table = headwater.scan(folder, engine="arrow").to_table(["subject"], ds.field("seq") == 7)
    assert table.to_pylist() == [{"subject": "orders.1"}]


def test_a_small_read_is_a_table_in_memory(folder: Path) -> None:
    table = headwater.read(folder, columns=["seq", "data"], limit=2)
    assert table.to_pylist() == [{"seq": 1, "data": b"1"}, {"seq": 2, "data": b"2"}]


def test_a_wrong_column_or_filter_of_a_small_read_is_an_error_of_the_package(folder: Path) -> None:
    with pytest.raises(headwater.Error, match=r"^there is no column 'wings': the columns are seq, subject, "):
        headwater.read(folder, columns=["seq", "wings"])
    with pytest.raises(headwater.Error, match="the filter is invalid: No match for"):
        headwater.read(folder, columns=["seq"], filter=ds.field("wings") == 1, limit=1)


def test_files_that_cannot_match_are_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import polars as pl

    def refuse(*arguments: object) -> Iterator[object]:
        raise RuntimeError("a file was read")

    monkeypatch.setattr(dataset, "read_batches", refuse)
    for nothing in (
        pl.col("seq") > ORDERS,
        pl.col("time") < datetime(2020, 1, 1, tzinfo=UTC),
        pl.col("subject") == "zebra",
    ):
        assert headwater.scan(folder).filter(nothing).collect().height == 0
    with pytest.raises(RuntimeError, match="a file was read"):
        headwater.read(folder)


def test_a_count_reads_no_payload(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import polars as pl

    asked: list[list[str]] = []

    def recording(part: Any, origin: Any, names: list[str], *rest: Any) -> Any:
        asked.append(list(names))
        return read_batches(part, origin, names, *rest)

    monkeypatch.setattr(dataset, "read_batches", recording)
    assert headwater.scan(folder).select(pl.len()).collect().item() == ORDERS
    assert headwater.scan(folder, engine="arrow").count_rows() == ORDERS
    assert asked
    assert all(names == ["seq"] for names in asked)


async def test_with_a_server_the_newest_messages_are_there_and_removed_ones_are_not(tmp_path: Path) -> None:
    async with lake(tmp_path) as running:
        client = await nats.connect(running.client_url)
        js = client.jetstream(timeout=60)
        await js.publish("orders.new", b"61")
        await js.delete_msg("ORDERS", 5)
        folder = running.store / "$G" / "ORDERS"
        live = [*range(1, 5), *range(6, ORDERS + 2)]
        whole: list[Callable[[], Any]] = [
            lambda: headwater.read(folder, columns=["seq"], server=running.client_url),
            lambda: headwater.read(f"{running.client_url}/ORDERS", columns=["seq"]),
        ]
        for read in whole:
            assert (await asyncio.to_thread(read))["seq"].to_pylist() == live
        await client.close()


def test_what_is_no_stream_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is no stream in"):
        headwater.read(tmp_path / "nothing")
    with pytest.raises(SettingsError, match="does not name a stream") as refused:
        headwater.scan("nats://me:secret@127.0.0.1:4222")
    assert "secret" not in str(refused.value)
    with pytest.raises(SettingsError, match="polars, arrow or duckdb"):
        headwater.scan(tmp_path, engine="pandas")  # type: ignore[call-overload]
    with pytest.raises(headwater.Error, match="unknown option"):
        headwater.scan(tmp_path, colour="red")
