"""Rows of a Spark DataFrame into a stream: the sink with and without ids, and nats.py in three ways.

All of them write rows of the same form to the same engine in one run, to a stream as `nats stream add` makes
it. nats.py publishes from one process or from each task, and waits for a thousand acknowledgements at once or
for each. The last lines have the rates, the CPU time of all processes for a million rows, and the ratios.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import nats
from pyspark.sql import DataFrame, SparkSession

from bench import processes
from bench.machine import describe
from bench.servers import headwater, nats_server_program

WINDOW = 1_000
"""How many messages nats.py publishes before it waits for their acknowledgements."""
SINKS = ("sink", "sink, with msg_id")


class Taken(NamedTuple):
    """What one round of one way took."""

    rate: float
    """Rows per second."""
    cpu_s: float
    """Of all processes, for a million rows."""


def main() -> None:
    """Run each way in several rounds, and print their rates."""
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
        sink(rows(spark, 1000, arguments.size), url)
        many, few, fewest = (
            rows(spark, n, arguments.size)
            for n in (arguments.rows, arguments.published, arguments.published // 8)
        )
        collected = [(row.subject, row.data.encode()) for row in few.collect()]
        ways: dict[str, tuple[int, Callable[[], None]]] = {
            "sink": (arguments.rows, lambda: sink(many, url)),
            "sink, with msg_id": (
                arguments.rows,
                lambda: sink(many.selectExpr("*", "uuid() AS msg_id"), url),
            ),
            "nats.py, one process": (arguments.published, lambda: one_process(collected, url)),
            "nats.py, each task": (arguments.published, lambda: each_task(few, url, WINDOW)),
            "nats.py, each row": (arguments.published // 8, lambda: each_task(fewest, url, 1)),
        }
        taken: dict[str, list[Taken]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, (amount, write) in ways.items():
                taken[name].append(timed(amount, write))
        stored = asyncio.run(count(url))
    expected = 1000 + arguments.rounds * sum(amount for amount, _ in ways.values())
    assert stored == expected, f"{stored} messages are stored, not {expected}"
    report(taken, arguments.size)
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


def report(taken: dict[str, list[Taken]], size: int) -> None:
    """Print the median of each way, and the ratios of the two sinks to it."""
    rates = {name: statistics.median(each.rate for each in found) for name, found in taken.items()}
    costs = {name: statistics.median(each.cpu_s for each in found) for name, found in taken.items()}
    print(f"rows of {size} bytes, median of {len(taken['sink'])} rounds, load {os.getloadavg()[0]:.0f}")
    print(f"  {'':22}{'rows/s':>10}{'sink':>7}{'ids':>7}{'CPU s per million':>20}{'sink':>7}{'ids':>7}")
    for name, rate in rates.items():
        faster = "".join(f"{rates[ours] / rate:7.1f}" for ours in SINKS)
        cheaper = "".join(f"{costs[name] / costs[ours]:7.1f}" for ours in SINKS)
        print(f"  {name:22}{rate:10,.0f}{faster}{costs[name]:20.1f}{cheaper}")


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


def each_task(frame: DataFrame, url: str, window: int) -> None:
    """Publish the rows of each partition in its task."""

    def publish_rows(partition: Iterator[Any]) -> None:
        asyncio.run(publish(url, ((row.subject, row.data.encode()) for row in partition), window))

    frame.foreachPartition(publish_rows)


async def publish(url: str, messages: Iterable[tuple[str, bytes]], window: int = WINDOW) -> None:
    """Publish with nats.py, a window of messages at a time, each acknowledged."""
    client = await nats.connect(url)
    if window == 1:
        for subject, data in messages:
            await client.jetstream().publish(subject, data, timeout=60)
        await client.close()
        return
    jetstream = client.jetstream(publish_async_max_pending=2 * WINDOW)
    waiting = []
    for subject, data in messages:
        waiting.append(await jetstream.publish_async(subject, data))
        if len(waiting) >= window:
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


def timed(amount: int, write: Callable[[], None]) -> Taken:
    """Return what a write of so many rows takes."""
    before, began = processes.now(), time.perf_counter()
    write()
    seconds = time.perf_counter() - began
    return Taken(amount / seconds, processes.since(before).cpu_s * 1_000_000 / amount)


if __name__ == "__main__":
    main()
