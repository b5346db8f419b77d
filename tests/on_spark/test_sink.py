"""A real Spark writes to streams: at once and batch by batch, to an engine and to a plain nats-server.

Spark is called on the thread of its session: on another it does not find a Python data source to write to.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from headwater.replication.spark import SparkCluster
from replication.origins import site_of


@pytest.fixture(scope="module")
def spark(cluster: SparkCluster) -> SparkSession:
    """A session in the Spark that is there."""
    return SparkSession.builder.getOrCreate()


def numbers(spark: SparkSession, count: int, *more: str) -> DataFrame:
    """Return rows with the columns of messages, in three partitions."""
    columns = ("concat('orders.', id % 3) AS subject", "cast(id AS string) AS data", *more)
    return spark.range(0, count, 1, 3).selectExpr(*columns)


def append(rows: DataFrame, url: str, **options: str) -> None:
    """Write rows to the stream."""
    rows.write.format("headwater").mode("append").options(server=url, stream="ORDERS", **options).save()


def read(spark: SparkSession, url: str) -> list[Any]:
    """Return the subject, data and headers of all messages."""
    rows = spark.read.format("headwater").options(server=url, stream="ORDERS").load()
    return [
        tuple(row) for row in rows.orderBy("seq").selectExpr("subject", "string(data)", "headers").collect()
    ]


def follow(spark: SparkSession, source: str, checkpoint: Path, url: str, **options: str) -> None:
    """Run a query from a folder of JSON files to the stream until it has read all of them."""
    rows = spark.readStream.schema("subject STRING, data STRING").json(source)
    begun = rows.writeStream.format("headwater").options(server=url, stream="ORDERS", **options)
    query = begun.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()


@pytest.mark.parametrize("kind", ["headwater", "nats-server"])
async def test_a_data_frame_is_written_and_read_back(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    headers = "map('Kind', array('a', 'b')) AS headers"
    async with site_of(kind, tmp_path) as site:
        await site.make()
        rows = numbers(spark, 100, headers)
        append(rows, site.url, queryId="job", batchId="1")
        append(rows, site.url, queryId="job", batchId="1")
        found = read(spark, site.url)
        assert sorted(int(data) for _, data, _ in found) == list(range(100))
        assert all(subject == f"orders.{int(data) % 3}" for subject, data, _ in found)
        assert all(kept["Kind"] == ["a", "b"] for _, _, kept in found)
        if kind == "headwater":
            assert [int(data) for _, data, _ in found] == list(range(100)), "in the order of the partitions"

            def copy() -> None:
                stored = spark.read.format("headwater").options(server=site.url, stream="ORDERS").load()
                append(stored, site.url)

            copy()
            twice = read(spark, site.url)
            assert sorted(twice) == sorted([*found, *found])


@pytest.mark.parametrize("kind", ["headwater", "nats-server"])
async def test_a_query_writes_each_batch_once(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    async with site_of(kind, tmp_path) as site:
        await site.make()
        for step in range(2):
            more = numbers(spark, 50).selectExpr("subject", f"concat('{step}-', data) AS data")
            more.write.mode("append").json(str(source))
            follow(spark, str(source), checkpoint, site.url)
        expected = sorted(f"{step}-{number}" for step in range(2) for number in range(50))
        assert sorted(data for _, data, _ in read(spark, site.url)) == expected
        # As after a crash between the sink's commit and that of the query.
        for commit in (checkpoint / "commits").glob("*1*"):
            commit.unlink()
        follow(spark, str(source), checkpoint, site.url)
        assert sorted(data for _, data, _ in read(spark, site.url)) == expected


async def test_what_a_stream_does_not_take_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    async with site_of("headwater", tmp_path) as site:
        await site.make()

        def refusals() -> list[str]:
            rows = numbers(spark, 10)
            attempts: tuple[tuple[DataFrame, dict[str, str]], ...] = (
                (rows.selectExpr("'other' AS subject", "data"), {}),
                (rows.selectExpr("subject"), {}),
                (rows.selectExpr("subject", "1 AS data"), {}),
                (rows.selectExpr("*", "1 AS more"), {}),
                (rows, {"Path": "x", "strem": "ORDERS"}),
                (rows, {"stream": "MISSING"}),
            )
            said = []
            for attempt, options in attempts:
                try:
                    append(attempt, site.url, **options)
                except (PySparkException, TypeError) as error:
                    said.append(str(error))
            return said

        said = refusals()
        for words, text in zip(
            (
                "the stream does not have the subject 'other'",
                "no column 'data'",
                "column 'data' must be binary or string, not int",
                "a message has no column 'more'",
                "unknown option 'strem'",
            ),
            said,
            strict=False,
        ):
            assert words in text
        assert not await site.remember()
