"""A `where` that keeps 20 % by a JSON field, and a `select` that rewrites the payload, with their peers.

1. A row pipeline of a source: the engine and its replicator.
2. A nats.py consumer on nats-server that filters or rewrites, and republishes with acknowledgements.
3. Structured Streaming over nats-server with our data source and sink (`--streaming`).

All read messages of the same form in one run. The last lines have the ratios. The time of a pipeline is from
its declaration until the target has everything, with Spark running.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import nats
import pyarrow as pa
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from bench.machine import describe
from bench.servers import headwater, nats_server, nats_server_program
from headwater.model.row_pipeline import KEY, RowPipeline, stored
from headwater.replication.work import NatsOrigin
from headwater.spark.bulk_client import bulk_client
from headwater.spark.message_rows import MessageRows

WINDOW = 1_000
FETCH = 1_000
PART_ROWS = 50_000
WAIT_S = 600.0
SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "score": {"type": "number"},
        "region": {"type": "string"},
        "note": {"type": "string"},
    },
}
FIELDS = "id BIGINT, score DOUBLE, region STRING, note STRING"
PIPELINES = {
    "where": RowPipeline(source="ORDERS", where="data.score > 0.8"),
    "select": RowPipeline(
        source="ORDERS",
        select="concat('out.', data.region) AS subject, "
        "to_json(struct(data.id, data.score * 2 AS twice)) AS data",
    ),
}


def order(number: int) -> bytes:
    """Return a JSON message of 128 bytes; a fifth of them score above 0.8."""
    body = (
        f'{{"id": {number}, "score": {number % 100 / 100 + 0.005:.3f}, "region": "r{number % 9}", "note": "'
    )
    return (body + "x" * (126 - len(body)) + '"}').encode()


def filtered(data: bytes) -> tuple[str, bytes] | None:
    """Do in Python what the `where` does."""
    return ("out.same", data) if json.loads(data)["score"] > 0.8 else None


def rewritten(data: bytes) -> tuple[str, bytes] | None:
    """Do in Python what the `select` does."""
    found = json.loads(data)
    return f"out.{found['region']}", json.dumps({"id": found["id"], "twice": found["score"] * 2}).encode()


WORK: dict[str, Callable[[bytes], tuple[str, bytes] | None]] = {"where": filtered, "select": rewritten}


def main() -> None:
    """Run both pipelines and their peers, and print rates and ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="messages of a pipeline")
    parser.add_argument("--consumed", type=int, default=30_000, help="messages of the nats.py consumer")
    parser.add_argument("--streamed", type=int, default=100_000, help="messages of Structured Streaming")
    parser.add_argument("--streaming", action="store_true", help="also run Structured Streaming")
    arguments = parser.parse_args()
    print(describe(nats_server_program()), flush=True)
    rates: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as directory, ExitStack() as stack:
        engine = stack.enter_context(headwater(Path(directory) / "engine"))
        rates["row pipeline"] = asyncio.run(pipelines(f"nats://127.0.0.1:{engine.port}", arguments.messages))
    with tempfile.TemporaryDirectory() as directory, nats_server(Path(directory) / "nats") as server:
        url = f"nats://127.0.0.1:{server.port}"
        most = max(arguments.consumed, arguments.streamed if arguments.streaming else 0)
        asyncio.run(fill(url, most))
        rates["nats.py consumer"] = asyncio.run(consumers(url, arguments.consumed))
        if arguments.streaming:
            rates["Structured Streaming"] = streaming(url, most)
    report(rates)


def report(rates: dict[str, dict[str, float]]) -> None:
    """Print the rates, and the ratio of the pipeline to its peers."""
    for kind in PIPELINES:
        print(f"{kind}: messages of 128 bytes read per second")
        ours = rates["row pipeline"][kind]
        for name, found in rates.items():
            ratio = (
                f", the pipeline is {ours / found[kind]:.1f} times as fast" if name != "row pipeline" else ""
            )
            print(f"  {name:22} {found[kind]:12,.0f}{ratio}")


async def pipelines(url: str, count: int) -> dict[str, float]:
    """Return the rates of row pipelines."""
    client = await nats.connect(url)
    schema = json.dumps({"version": 1, "format": "json", "schema": SCHEMA})
    await declare(client, "ORDERS", subjects=["orders"], metadata={"headwater.schema": schema})
    await asyncio.to_thread(write, url, "ORDERS", 1_000)
    for kind, pipeline in PIPELINES.items():
        await piped(client, f"WARM-{kind}", pipeline, 1_000)
    print("Spark is warm", flush=True)
    await asyncio.to_thread(write, url, "ORDERS", count)
    rates: dict[str, float] = {}
    for kind, pipeline in PIPELINES.items():
        began = time.perf_counter()
        await piped(client, kind.upper(), pipeline, 1_000 + count)
        rates[kind] = (1_000 + count) / (time.perf_counter() - began)
        expected = {"where": (1_000 + count) // 5, "select": 1_000 + count}[kind]
        info = await client.jetstream().stream_info(kind.upper())
        assert info.state.messages == expected, f"{info.state.messages} messages, not {expected}"
    await client.close()
    return rates


async def piped(client: Client, name: str, pipeline: RowPipeline, count: int) -> None:
    """Return once a stream has everything of its origin."""
    await declare(client, name, sources=[{"name": "ORDERS"}], metadata={KEY: stored([pipeline])})
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        headers = {"Headwater-Progress": "1"}
        answer = await client.request(f"$JS.API.STREAM.INFO.{name}", b"", timeout=30, headers=headers)
        source = json.loads(answer.data)["sources"][0]
        reason = (source.get("error") or {}).get("description", "")
        if reason and "nothing was copied" not in reason:  # one job reads much, and others use the machine
            raise SystemExit(f"{name}: {reason}")
        if source["headwater"]["seq"] >= count:
            return
        await asyncio.sleep(0.05)
    raise SystemExit(f"{name} was not copied within {WAIT_S:g} s")


async def declare(client: Client, name: str, **more: Any) -> None:
    """Make a stream."""
    config = {"name": name, "retention": "limits", "storage": "file", **more}
    answer = await client.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode(), timeout=150)
    if error := json.loads(answer.data).get("error"):
        raise SystemExit(f"{name}: {error['description']}")


def write(url: str, stream: str, count: int) -> None:
    """Write messages in bulk."""
    origin = NatsOrigin(servers=(url,), api_prefix="$JS.API", stream=stream)
    with bulk_client(origin) as client:
        for start in range(0, count, PART_ROWS):
            datas = [order(number) for number in range(start, min(start + PART_ROWS, count))]
            name = f"fill:{count}:{start}"
            part = client.part(name, "0")
            batch = pa.record_batch(
                {"subject": ["orders"] * len(datas), "data": pa.array(datas, pa.binary())}
            )
            for rows in MessageRows(batch).chunks(client.chunk_bytes):
                part.append(rows)
            part.finish()
            client.commit(name, f"fill:{count}", start, [part.name], len(datas))


async def fill(url: str, count: int) -> None:
    """Make the streams of nats-server, and publish to the origin."""
    client = await nats.connect(url)
    await declare(client, "ORDERS", subjects=["orders"])
    await declare(client, "OUT", subjects=["out.>"])
    await declare(client, "STREAMED", subjects=["streamed.>"])
    await republish(client, [("orders", order(number)) for number in range(count)])
    await client.close()


async def consumers(url: str, count: int) -> dict[str, float]:
    """Return the rates of a consumer that filters or rewrites, and republishes."""
    client = await nats.connect(url)
    jetstream = client.jetstream()
    rates: dict[str, float] = {}
    for kind, work in WORK.items():
        config = ConsumerConfig(ack_policy=AckPolicy.ALL, max_ack_pending=10 * FETCH)
        pulled = await jetstream.pull_subscribe("orders", durable=kind, stream="ORDERS", config=config)
        began, read = time.perf_counter(), 0
        while read < count:
            messages = await pulled.fetch(FETCH, timeout=30)
            read += len(messages)
            await republish(client, [made for each in messages if (made := work(each.data)) is not None])
            await messages[-1].ack()
        rates[kind] = read / (time.perf_counter() - began)
    await client.close()
    return rates


async def republish(client: Client, messages: list[tuple[str, bytes]]) -> None:
    """Publish messages, a window at a time, each acknowledged."""
    jetstream = client.jetstream(publish_async_max_pending=2 * WINDOW)
    for start in range(0, len(messages), WINDOW):
        some = messages[start : start + WINDOW]
        await asyncio.gather(*[await jetstream.publish_async(subject, data) for subject, data in some])


def streaming(url: str, count: int) -> dict[str, float]:
    """Return the rates of a streaming query over nats-server, from its start until it has read everything."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    import headwater.spark as headwater_spark

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rates: dict[str, float] = {}
    for kind in ("where", "where", "select"):  # the first run warms Spark up
        options = {"server": url, "stream": "ORDERS"}
        frame = headwater_spark.decode(
            spark.readStream.format("headwater").options(**options).load(), "json", FIELDS
        )
        if kind == "where":
            made = frame.where("data.score > 0.8").selectExpr(
                "'streamed.w' AS subject", "to_json(data) AS data"
            )
        else:
            body = "to_json(struct(data.id, data.score * 2 AS twice)) AS data"
            made = frame.selectExpr("concat('streamed.', data.region) AS subject", body)
        with tempfile.TemporaryDirectory() as checkpoint:
            began = time.perf_counter()
            query = (
                made.writeStream.format("headwater")
                .options(server=url, stream="STREAMED", checkpointLocation=checkpoint)
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            rates[kind] = count / (time.perf_counter() - began)
    spark.stop()
    return rates


if __name__ == "__main__":
    main()
