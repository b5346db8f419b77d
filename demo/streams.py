"""Streams working: created, published, read, killed, read again, and queried as a table."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import duckdb
import nats
from deltalake import DeltaTable
from nats.aio.client import Client
from nats.js.api import StreamConfig
from rich.console import Console

MESSAGES = 5_000
PATIENCE_S = 60
console = Console(highlight=False)


def say(text: str) -> None:
    """Print one step."""
    console.print(f"[bold cyan]▸[/] {text}", soft_wrap=True)


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@asynccontextmanager
async def engine(store: Path, port: int) -> AsyncIterator[tuple[Client, asyncio.subprocess.Process]]:
    """Run an engine and connect an ordinary client to it."""
    command = [sys.executable, "-m", "headwater", "serve", "--store", str(store), "--port", str(port)]
    command += ["--log-level", "warning"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        ready = (await process.stdout.readline()).decode().strip()
        if not ready:
            raise SystemExit("the engine did not start")
        say(ready)
        client = await nats.connect(
            f"nats://127.0.0.1:{port}", allow_reconnect=False, error_cb=ignore, connect_timeout=PATIENCE_S
        )
        yield client, process
        await client.close()
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()


async def ignore(error: Exception) -> None:
    """Ignore that the connection breaks when the engine is killed."""


async def publish(client: Client) -> None:
    """Create a stream and publish to it, some of it twice."""
    js = client.jetstream(timeout=PATIENCE_S)
    await js.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"], allow_direct=True))
    start = time.perf_counter()
    for first in range(0, MESSAGES, 500):
        await asyncio.gather(
            *(
                js.publish(f"orders.{('new', 'paid', 'sent')[i % 3]}", b'{"id":%d}' % i)
                for i in range(first, first + 500)
            )
        )
    took = time.perf_counter() - start
    say(f"published {MESSAGES:,} messages with nats-py, each on disk before its ack, in {took:.2f} s")
    once = await js.publish("orders.new", b"{}", headers={"Nats-Msg-Id": "order-7"})
    again = await js.publish("orders.new", b"{}", headers={"Nats-Msg-Id": "order-7"})
    say(f"published one message twice under one id: sequence {once.seq}, then duplicate={again.duplicate}")


async def read(client: Client) -> None:
    """Read the stream by sequence and by subject, and use a key-value bucket."""
    js = client.jetstream(timeout=PATIENCE_S)
    state = (await js.stream_info("ORDERS")).state
    say(f"stream info: {state.messages:,} messages, {state.bytes:,} bytes, last sequence {state.last_seq:,}")
    by_seq = await js.get_msg("ORDERS", 42)
    last = await js.get_last_msg("ORDERS", "orders.sent")
    say(f"message 42 is {by_seq.data!r} on {by_seq.subject}; the last orders.sent has sequence {last.seq}")
    await js.delete_msg("ORDERS", 42)
    say("deleted message 42: gone for every reader")


async def keep_values(client: Client) -> None:
    """Use a key-value bucket, which is a stream as well."""
    bucket = await client.jetstream(timeout=PATIENCE_S).create_key_value(bucket="PRICES")
    await bucket.put("apple", b"3")
    revision = await bucket.put("apple", b"4")
    value = (await bucket.get("apple")).value
    say(f"key-value bucket: apple is {value!r} at revision {revision}")


async def query(store: Path, expected: int) -> None:
    """Query the stream's table with DuckDB while the engine runs."""
    (table,) = store.glob("*/ORDERS/table")
    for _ in range(1200):
        rows = DeltaTable(table).to_pyarrow_dataset() if (table / "_delta_log").exists() else None
        if rows is not None and rows.count_rows() >= expected:
            break
        await asyncio.sleep(0.1)
    say(f"the same stream as a Delta table, read by DuckDB {duckdb.__version__}:")
    print(
        duckdb.sql(
            """SELECT subject, count(*) AS messages, min(base_seq + "offset") AS first_seq,
                      max(base_seq + "offset") AS last_seq, max(time) AS newest
               FROM rows GROUP BY subject ORDER BY subject"""
        )
    )


async def main() -> None:
    """Run the steps in a store of its own."""
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as directory:
        store = Path(directory) / "store"
        port = free_port()
        async with engine(store, port) as (client, process):
            await publish(client)
            await read(client)
            await keep_values(client)
            before = (await client.jetstream(timeout=PATIENCE_S).stream_info("ORDERS")).state
            process.kill()
            await process.wait()
            say("killed the engine with kill -9")
        async with engine(store, port) as (client, process):
            after = (await client.jetstream(timeout=PATIENCE_S).stream_info("ORDERS")).state
            assert (after.messages, after.last_seq) == (before.messages, before.last_seq)
            say(f"everything that was acknowledged is there: {after.messages:,} messages")
            await query(store, after.messages)
        say("stopped cleanly; `make serve` runs an engine of your own")


if __name__ == "__main__":
    asyncio.run(main())
