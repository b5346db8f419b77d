"""A small store with streams, consumers and messages, to be damaged, and what it should hold."""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from doors import opened_domain, services
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import ConsumerRow
from headwater.control.domain import Domain
from headwater.disk import RealDisk
from headwater.model.message import Message
from headwater.model.stream import Storage, StreamConfig
from headwater.stan import records
from headwater.stan.clients import Client
from headwater.stan.flow import ChannelFlow
from headwater.stan.records import Records
from headwater.stan.subscription import FlowKey, SharedFlow
from headwater.store.repair import Repair, Repaired
from headwater.store.repair_job import Options
from headwater.store.verify import Report, verify
from headwater.stream.stream import Stream

DISK = RealDisk(sync=False)
NAMES = ("ORDERS", "EVENTS")
Held = dict[str, dict[int, Message]]


def config(name: str, **fields: Any) -> StreamConfig:
    return StreamConfig(**{"name": name, "subjects": (f"{name}.>",), "description": f"of {name}", **fields})


async def on(store: Path, work: Callable[[Domain], Awaitable[None]]) -> None:
    """Run work on the account's streams."""
    async with services(store) as shared, opened_domain(store, shared) as domain:
        await work(domain)


async def publish(stream: Stream, count: int) -> None:
    first = (await stream.reading.state()).last_seq + 1
    for seq in range(first, first + count):
        stream.publishing.offer([(f"{stream.name}.{seq % 3}".encode(), b"", b"", b"message %d" % seq * 4)])
    await stream.publishing.settled()


async def make(store: Path) -> Held:
    """Make the store; return what each stream holds."""
    held: Held = {}

    async def fill(domain: Domain) -> None:
        for name in NAMES:
            stream, _ = await domain.create_stream(config(name))
            for _ in range(3):
                await publish(stream, 8)
                await stream.checkpoint()
            await stream.retention.remove(5)
            await publish(stream, 6)
            await stream.folder.fold()
            await publish(stream, 4)
            held[name] = await everything(stream)
            row = ConsumerRow("$G", name, "reader", '{"durable_name":"reader","ack_policy":"explicit"}', 7)
            domain._catalog.declare_consumer(row)
        await domain.create_stream(config("MEM", storage=Storage.MEMORY))

    await on(store, fill)
    kept = Records(store / "stan.$G.db")
    flow = SharedFlow(1, FlowKey("foo", "me", "dur"), ChannelFlow(9, [3, 4]))
    kept.write([records.add_client(Client("me", "hb", b"x", 1, 5, 3)), records.add_flow(flow)])
    kept.close()
    return held


async def everything(stream: Stream) -> dict[int, Message]:
    return {m.seq: m async for part in stream.reading.scan(0) for m in part}


async def content(store: Path) -> Held:
    """Return what each stream holds; all must be served."""
    held: Held = {}

    async def read(domain: Domain) -> None:
        assert dict(domain.offline) == {}
        for name in domain.names():
            if name != "MEM":
                held[name] = await everything(domain.stream(name))

    await on(store, read)
    return held


def checked(store: Path) -> Report:
    return verify(store, DISK, lambda said: None)


def repaired(store: Path, **options: Any) -> Repaired:
    return Repair(store, DISK, Options(**options), lambda said: None).run()


def flip(path: Path, at: int | None = None, bit: int = 4) -> None:
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2 if at is None else at] ^= 1 << bit
    path.write_bytes(damaged)


def data_files(store: Path, name: str = "ORDERS") -> list[Path]:
    found = (store / "$G" / name / "table").glob("base_seq=*/**/*.parquet")
    return sorted(found, key=lambda path: path.stat().st_mtime_ns)


def store_id(store: Path) -> str:
    catalog = Catalog(store / "catalog.db")
    try:
        return catalog.store_id
    finally:
        catalog.close()


def forget(store: Path, name: str) -> None:
    """Take a stream out of the catalog behind its back."""
    with sqlite3.connect(store / "catalog.db") as db:
        db.execute("PRAGMA foreign_keys=ON")
        db.execute("DELETE FROM streams WHERE name = ?", (name,))


def checkpoints(store: Path, name: str = "ORDERS") -> list[Path]:
    """Return the checkpoint of a stream and its copy."""
    home = store / "$G" / name
    return [home / "checkpoint", home / "checkpoint.copy"]
