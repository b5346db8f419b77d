"""A real Spark reads streams: at once and micro-batch by micro-batch, with SQL over them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headwater.disk import RealDisk
from headwater.model import headers as header_block
from headwater.model.payload_schema import KEY, stored
from headwater.replication.spark import SparkCluster
from headwater.spark import register
from headwater.table import Table
from replication.origins import site_of
from table.links import link_of
from table.samples import columns, everything


@pytest.fixture(scope="module")
def spark(cluster: SparkCluster) -> SparkSession:
    """A session in the Spark that is there; it needs no registration of ours."""
    return SparkSession.builder.getOrCreate()


def loaded(spark: SparkSession, *names: str, path: Path | None = None, **options: str) -> list[Any]:
    """Return rows of a stream, read by its format's name."""
    reader = spark.read.format("headwater").options(**options)
    rows = reader.load(str(path)) if path else reader.load()
    return [tuple(row) for row in rows.orderBy("seq").selectExpr(*names).collect()]


async def test_sql_is_asked_over_a_stream_of_files_and_what_is_not_folded_yet(
    spark: SparkSession, tmp_path: Path
) -> None:
    async with site_of("headwater", tmp_path) as site:
        await site.make()
        for number in range(6):
            await site.publish(
                f"orders.{'new' if number % 2 else 'paid'}", b"%d" % number, {"N": str(number)}
            )
        folder = tmp_path / "engine" / "store" / "$G" / "ORDERS"
        rows = await asyncio.to_thread(
            loaded, spark, "seq", "data", "headers.N", path=folder, server=site.url
        )
        assert rows == [(seq, bytearray(b"%d" % (seq - 1)), [str(seq - 1)]) for seq in range(1, 7)]

        def request() -> list[Any]:
            narrow = spark.read.format("headwater").schema("seq BIGINT, subject STRING")
            narrow.options(server=site.url).load(str(folder)).createOrReplaceTempView("orders")
            asked = "SELECT subject, count(*), max(seq) FROM orders GROUP BY subject ORDER BY subject"
            return [tuple(row) for row in spark.sql(asked).collect()]

        assert await asyncio.to_thread(request) == [("orders.new", 3, 6), ("orders.paid", 3, 5)]

        def request_view() -> list[Any]:
            options = f"path '{folder}', server '{site.url}'"
            spark.sql(f"CREATE TEMPORARY VIEW view_of_orders USING headwater OPTIONS ({options})")
            return [tuple(row) for row in spark.sql("SELECT count(*) FROM view_of_orders").collect()]

        assert await asyncio.to_thread(request_view) == [(6,)]


async def test_a_query_follows_a_stream_in_micro_batches_and_continues_after_a_stop(
    spark: SparkSession, tmp_path: Path
) -> None:
    seen: set[int] = set()

    def follow(url: str) -> tuple[list[int], list[int]]:
        """Read what is there now; return what this query brought, and how much each micro-batch took."""
        source = spark.readStream.format("headwater").options(server=url, stream="ORDERS")
        query = (
            source.option("maxMessagesPerTrigger", 2)
            .schema("seq BIGINT")
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "brought"))
        )
        assert query.awaitTermination(600)
        brought = {row.seq for row in spark.read.parquet(str(tmp_path / "brought")).collect()} - seen
        seen.update(brought)
        counts = [progress["numInputRows"] for progress in query.recentProgress]
        return sorted(brought), [count for count in counts if count]

    async with site_of("nats-server", tmp_path) as site:
        await site.make(allow_direct=True)
        for _ in range(5):
            await site.publish("orders.new", b"x")
        assert await asyncio.to_thread(follow, site.url) == ([1, 2, 3, 4, 5], [2, 2, 1])
        for _ in range(3):
            await site.publish("orders.new", b"y")
        assert await asyncio.to_thread(follow, site.url) == ([6, 7, 8], [2, 1])


@pytest.mark.parametrize("pushed", ["true", "false"])
def test_filters_give_the_same_rows_with_and_without_push_down(
    spark: SparkSession, tmp_path: Path, pushed: str
) -> None:
    table = Table.open(tmp_path / "S" / "table", RealDisk(sync=False))
    table.commit([table.write(columns(range(start, start + 10))) for start in range(1, 41, 10)])
    spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        stream = spark.read.format("headwater").option("pushFilters", "true")
        frame = spark.read.format("headwater").load(str(tmp_path / "S"))
        noon = next(row for row in everything(table) if row.seq == 33).ts // 1000
        conditions = {
            "seq = 15": [15],
            "seq IN (3, 40)": [3, 40],
            "seq > 5 AND seq <= 7 AND data IS NOT NULL": [6, 7],
            "subject LIKE 'orders.6%'": [6, 13, 20, 27, 34],
            "subject IN ('orders.6', 'nothing') AND seq < 14": [6, 13],
            f"time >= timestamp_micros({noon}) AND seq < 36": [33, 34, 35],
            "seq < 3 OR seq > 39": [1, 2, 40],
        }
        for condition, expected in conditions.items():
            # Spark keeps one plan for each DataFrame: without the option it must be that of all rows.
            for each in (stream.load(str(tmp_path / "S")), frame):
                found = each.where(condition).select("seq").collect()
                assert sorted(row.seq for row in found) == expected, condition
        assert frame.count() == 40
        assert frame.where("seq = 15").union(frame.where("seq > 39")).count() == 2
        tasks = stream.load(str(tmp_path / "S")).where("seq = 15").rdd.getNumPartitions()
        assert tasks == (1 if pushed == "true" else 4)
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")
        spark.conf.unset("spark.sql.session.timeZone")


def test_a_table_that_sql_creates_is_read_as_the_stream_is_now(spark: SparkSession, tmp_path: Path) -> None:
    table = Table.open(tmp_path / "S" / "table", RealDisk(sync=False))
    table.commit([table.write(columns(range(1, 11)))])
    options = f"path '{tmp_path / 'S'}', subject 'orders.6'"
    spark.sql(f"CREATE TABLE sql_table USING headwater OPTIONS ({options})")
    try:
        assert [row.seq for row in spark.sql("SELECT seq FROM sql_table").collect()] == [6]
        table.commit([table.write(columns(range(11, 16)))])
        assert [row.seq for row in spark.sql("SELECT seq FROM sql_table ORDER BY 1").collect()] == [6, 13]
    finally:
        spark.sql("DROP TABLE sql_table")
    assert len(list((tmp_path / "S" / "table").rglob("*.parquet"))) == 2


async def test_every_stream_becomes_a_view_with_typed_fields(spark: SparkSession, tmp_path: Path) -> None:
    schema = stored({"properties": {"n": {"type": "integer"}}})
    async with site_of("headwater", tmp_path) as site:
        await site.make(metadata={KEY: schema})
        await site.ask("STREAM.CREATE.a-b", b'{"name": "a-b", "subjects": ["a"]}')
        for payload in (b'{"n": 7}', b"text"):
            await site.publish("orders.new", payload)
        await site.publish("a", b"x")

        def views(place: str, **options: str) -> list[Any]:
            assert register(spark, place, **options) == ["ORDERS", "a-b"]
            typed = spark.sql("SELECT data.n, _corrupt FROM ORDERS ORDER BY seq").collect()
            return [*map(tuple, typed), *map(tuple, spark.sql("SELECT data FROM `a-b`").collect())]

        expected = [(7, None), (None, bytearray(b"text")), (bytearray(b"x"),)]
        assert await asyncio.to_thread(views, site.url) == expected
        store = str(tmp_path / "engine" / "store")
        assert await asyncio.to_thread(lambda: views(store, server=site.url)) == expected


def test_option_columns_and_a_stream_without_messages(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "EMPTY" / "table").mkdir(parents=True)
    frame = spark.read.format("headwater").option("columns", "seq,subject").load(str(tmp_path / "EMPTY"))
    assert frame.columns == ["seq", "subject"]
    assert frame.count() == 0


def test_linked_files_are_read_as_their_stream_holds_them(spark: SparkSession, tmp_path: Path) -> None:
    table, staging = Table.open(tmp_path / "S" / "table", RealDisk(sync=False)), tmp_path / "staging"
    table.commit([table.write(columns(range(1, 4)))])
    one = link_of(staging, range(500, 520)).behind(3, 0, 1_800_000_000_000_000_000)
    table.adopt(staging, [one], {})
    table.commit([table.write(columns(range(24, 27)))])
    found = loaded(
        spark, "seq", "subject", "headers", "unix_micros(time)", "nanos", "data", path=tmp_path / "S"
    )
    expected = [
        (
            m.seq,
            m.subject.decode(),
            {name.decode(): [value.decode()] for name, value in header_block.parse(m.headers) or []} or None,
            m.ts // 1000,
            m.ts % 1000,
            m.data,
        )
        for m in everything(table)
    ]
    assert found == expected
    # Spark itself knows the columns that folders tell.
    frame = spark.read.parquet(str(table.directory))
    rows = frame.selectExpr("base_seq + offset", "source", "source_base + offset").collect()
    assert sorted(tuple(row) for row in rows) == sorted(
        [
            *((seq, None, None) for seq in (1, 2, 3, 24, 25, 26)),
            *((seq, "ORDERS", seq + 496) for seq in range(4, 24)),
        ]
    )
