"""A store with two streams, written by a real engine, for tests that read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pyarrow as pa
from deltalake import DeltaTable
from nats.js.api import StorageType

from engines import RunningEngine, engine
from waits import until

QUICK = ("--fold-interval-s", "0.1")
ORDERS = 60


@asynccontextmanager
async def lake(directory: Path) -> AsyncIterator[RunningEngine]:
    """Run an engine whose stream ORDERS is in its table; its stream EMPTY holds nothing."""
    async with engine(directory, *QUICK) as running:
        client = await nats.connect(running.client_url)
        js = client.jetstream(timeout=60)
        for name in ("ORDERS", "EMPTY"):
            await js.add_stream(name=name, subjects=[f"{name.lower()}.>"], storage=StorageType.FILE)
        for number in range(1, ORDERS + 1):
            await js.publish(f"orders.{number % 3}", b"%d" % number, headers={"Number": str(number)})
        table = running.store / "$G" / "ORDERS" / "table"
        await until(lambda: _rows(table) == ORDERS, "the stream is in its table", lambda: running.log)
        await client.close()
        yield running


def _rows(table: Path) -> int:
    adds = pa.table(DeltaTable(table).get_add_actions(flatten=True))
    return sum(adds["num_records"].to_pylist()) if adds.num_rows else 0
