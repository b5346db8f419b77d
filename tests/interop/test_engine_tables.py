"""While an engine runs, its tables hold what its API shows, for every engine that reads Delta."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import duckdb
import nats
import pytest
from deltalake import DeltaTable
from nats.js import JetStreamContext
from nats.js.api import StorageType

from engines import engine

QUICK = ("--fold-interval-s", "0.1", "--compact-interval-s", "0.1", "--erase-interval-s", "0.1")
ROUNDS = 600
Row = tuple[int, str, bytes]


def with_duckdb(directory: Path) -> list[Row]:
    with duckdb.connect() as connection:
        connection.register("messages", DeltaTable(directory).to_pyarrow_dataset())
        rows = connection.execute('SELECT base_seq + "offset", subject, data FROM messages ORDER BY 1')
        return [(seq, subject, bytes(data)) for seq, subject, data in rows.fetchall()]


def with_polars(directory: Path) -> list[Row]:
    import polars as pl

    seq = (pl.col("base_seq") + pl.col("offset")).alias("seq")
    return pl.scan_delta(str(directory)).select(seq, "subject", "data").sort("seq").collect().rows()


async def shown_by_the_api(js: JetStreamContext, stream: str) -> list[Row]:
    state = (await js.stream_info(stream)).state
    found = []
    for seq in range(state.first_seq, state.last_seq + 1):
        try:
            message = await js.get_msg(stream, seq)
        except nats.js.errors.NotFoundError:
            continue
        found.append((seq, message.subject or "", message.data or b""))
    return found


@pytest.mark.parametrize("read", [with_duckdb, with_polars])
async def test_a_table_comes_to_hold_what_the_api_shows(
    tmp_path: Path, read: Callable[[Path], list[Row]]
) -> None:
    async with engine(tmp_path, *QUICK) as running:
        client = await nats.connect(running.client_url)
        js = client.jetstream(timeout=60)
        await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE, max_msgs=400)
        for number in range(450):
            await js.publish(f"orders.{number % 7}", b"order %d" % number)
        for seq in (60, 61, 400):
            await js.delete_msg("ORDERS", seq)
        await js.purge_stream("ORDERS", subject="orders.3")
        expected = await shown_by_the_api(js, "ORDERS")
        assert 300 < len(expected) < 400
        table = running.store / "$G" / "ORDERS" / "table"
        seen: list[Row] = []
        for _ in range(ROUNDS):
            seen = read(table)
            if seen == expected:
                break
            await asyncio.sleep(0.05)
        assert seen == expected
        await client.close()
