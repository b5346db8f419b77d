"""Rows of a Spark DataFrame into a stream: the sink, nats.py in one process, and nats.py in each task.

All three write rows of the same form to the same engine in one run. The last lines have the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import nats
from pyspark.sql import DataFrame, SparkSession

from bench.machine import describe
from bench.servers import headwater, nats_server_program

WINDOW = 1_000
"""How many messages nats.py publishes before it waits for their acknowledgements."""


def main() -> None:
    """Run the three ways, each in several rounds, and print their rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows that the sink writes in a round")
    parser.add_argument(
        "--published", type=int, default=40_000, help="rows that nats.py publishes in a round"
    )
    parser.add_argument("--size", type=int, default=128, help="bytes of data in a row")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    spark = session()
    with tempfile.TemporaryDirectory() as directory, headwater(Path(directory) / "store") as server:
        url = f"nats://127.0.0.1:{server.port}"
        asyncio.run(declare(url))
        rates: dict[str, list[float]] = {"sink": [], "nats.py, one process": [], "nats.py, each task": []}
        for _ in range(arguments.rounds):
            many, few = (rows(spark, n, arguments.size) for n in (arguments.rows, arguments.published))
            collected = [(row.subject, row.data.encode()) for row in few.collect()]
            rates["sink"].append(arguments.rows / timed(sink, many, url))
            rates["nats.py, one process"].append(arguments.published / timed(one_process, collected, url))
            rates["nats.py, each task"].append(arguments.published / timed(each_task, few, url))
        stored = asyncio.run(count(url))
    expected = arguments.rounds * (arguments.rows + 2 * arguments.published)
    assert stored == expected, f"{stored} messages are stored, not {expected}"
    report(rates, arguments.size)
    spark.stop()


def session() -> SparkSession:
    """Return a Spark on two cores, as a user would start it, on loopback only."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def report(rates: dict[str, list[float]], size: int) -> None:
    """Print the median of each way, and the ratio of the sink to the others."""
    medians = {name: sorted(found)[len(found) // 2] for name, found in rates.items()}
    print(f"rows of {size} bytes per second, median of {len(rates['sink'])} rounds")
    for name, median in medians.items():
        ratio = f", the sink is {medians['sink'] / median:.1f} times as fast" if name != "sink" else ""
        print(f"  {name:22} {median:12,.0f}{ratio}")


def rows(spark: SparkSession, count: int, size: int) -> DataFrame:
    """Return rows with a subject and data of a length."""
    data = f"lpad(cast(id AS string), {size}, 'x') AS data"
    return spark.range(0, count, 1, 4).selectExpr("concat('bench.', id % 100) AS subject", data)


def sink(frame: DataFrame, url: str) -> None:
    """Write with the sink."""
    frame.write.format("headwater").mode("append").options(server=url, stream="BENCH").save()


def one_process(messages: list[tuple[str, bytes]], url: str) -> None:
    """Publish all rows from here."""
    asyncio.run(publish(url, messages))


def each_task(frame: DataFrame, url: str) -> None:
    """Publish the rows of each partition in its task."""

    def publish_rows(partition: Iterator[Any]) -> None:
        asyncio.run(publish(url, ((row.subject, row.data.encode()) for row in partition)))

    frame.foreachPartition(publish_rows)


async def publish(url: str, messages: Iterable[tuple[str, bytes]]) -> None:
    """Publish with nats.py, a window of messages at a time, each acknowledged."""
    client = await nats.connect(url)
    jetstream = client.jetstream(publish_async_max_pending=2 * WINDOW)
    waiting = []
    for subject, data in messages:
        waiting.append(await jetstream.publish_async(subject, data))
        if len(waiting) >= WINDOW:
            await asyncio.gather(*waiting)
            waiting = []
    await asyncio.gather(*waiting)
    await client.close()


async def declare(url: str) -> None:
    """Make the stream."""
    client = await nats.connect(url)
    config = {"name": "BENCH", "subjects": ["bench.>"], "retention": "limits", "storage": "file"}
    await client.request("$JS.API.STREAM.CREATE.BENCH", json.dumps(config).encode(), timeout=30)
    await client.close()


async def count(url: str) -> int:
    """Return how many messages the stream has."""
    client = await nats.connect(url)
    info = await client.jetstream().stream_info("BENCH")
    await client.close()
    return int(info.state.messages)


def timed(work: Callable[..., None], *args: object) -> float:
    """Return how many seconds something takes."""
    began = time.perf_counter()
    work(*args)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
