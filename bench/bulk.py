"""Bulk writes without Spark: the rate, the CPU time, and the longest turn of the engine's event loop.

The engine runs in this process. So the CPU time is that of client and engine, without nats-server's.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import tempfile
import time
import uuid
from pathlib import Path

import pyarrow as pa

import headwater
from bench.machine import describe
from bench.servers import nats_server_program
from bench.sink import declare
from bench.turns import Client, Turns
from headwater.replication.work import NatsOrigin
from headwater.spark.bulk_client import BulkClient, bulk_client
from headwater.spark.message_rows import MessageRows

RULED = 49_000
"""How many messages are written where the rules need each: the limit is 50,000."""
BATCH = 10_000
SUBJECTS = 100


def main() -> None:
    """Write to each kind of stream."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=128, help="bytes of data in a row")
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    print(f"load {os.getloadavg()[0]:.0f}\n{'':<62}{'seconds':>9}{'turn, ms':>9}{'GC, ms':>9}  of")
    directory, turns = Path(tempfile.mkdtemp(prefix="headwater-bench-")), Turns()
    try:
        with headwater.serve(directory, replicator="submitted") as engine:
            asyncio.run(declare(engine.url))
            ruled = {"name": "RULED", "subjects": ["ruled.>"], "max_msgs_per_subject": 1_000_000}
            Client(engine).ask("STREAM.CREATE.RULED", ruled)
            for batch, ids in enumerate((False, True)):
                write(turns, engine.url, "BENCH", batch, arguments.rows, arguments.size, ids=ids)
                write(turns, engine.url, "RULED", batch, RULED, arguments.size, ids=ids)
    finally:
        shutil.rmtree(directory)


def write(turns: Turns, url: str, stream: str, batch: int, count: int, size: int, *, ids: bool) -> None:
    """Write one batch, and print what its parts and its commit take."""
    name = f"{stream}, {count:,} messages of {size} bytes{' with ids' if ids else ''}"
    batches = [
        rows(stream, start, min(BATCH, count - start), size, ids=ids) for start in range(0, count, BATCH)
    ]
    with bulk_client(NatsOrigin(servers=(url,), api_prefix="$JS.API", stream=stream)) as client:
        began, cpu = time.perf_counter(), time.process_time()
        with turns.shown(f"{name}: parts"):
            send(client, f"{stream}-{batch}", batches)
        with turns.shown(f"{name}: commit"):
            client.commit(f"{stream}-{batch}", "bench", batch, ["part"], count)
        took, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(f"  {count / took:,.0f} rows/s, {cpu * 1e6 / count:.2f} CPU seconds per million")


def send(client: BulkClient, write: str, batches: list[pa.RecordBatch]) -> None:
    """Send the rows as one part."""
    part = client.part(write, "part")
    for batch in batches:
        for chunk in MessageRows(batch).chunks(client.chunk_bytes):
            part.append(chunk)
    part.finish()


def rows(stream: str, start: int, count: int, size: int, *, ids: bool) -> pa.RecordBatch:
    """Return rows with a subject, data of a length, and perhaps a random id."""
    numbers = range(start, start + count)
    columns = {"subject": [f"{stream.lower()}.{number % SUBJECTS}" for number in numbers]}
    columns["data"] = [str(number).rjust(size, "x") for number in numbers]
    if ids:
        columns["msg_id"] = [str(uuid.uuid4()) for _ in numbers]
    return pa.record_batch(columns)


if __name__ == "__main__":
    main()
