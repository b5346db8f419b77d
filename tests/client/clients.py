"""Both kinds of JetStream behind one client, each with a stream and a mirror of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import headwater
from headwater import AsyncClient
from servers import nats_server


@asynccontextmanager
async def jetstream_of(kind: str, directory: Path) -> AsyncIterator[AsyncClient]:
    """Run an engine without a replicator, or a plain nats-server; give a client of it."""
    if kind == "engine":
        async with headwater.serve(directory / "lake", replicator="submitted") as engine:
            async with engine.connect(timeout=60) as client:
                yield client
    else:
        async with nats_server(jetstream=True) as server:
            async with headwater.connect(server.client_url, timeout=60) as client:
                yield client


async def fill(client: AsyncClient, messages: int) -> None:
    """Make a stream ORDERS with messages, and a mirror COPY of it."""
    js = client.nats.jetstream(timeout=60)
    await js.add_stream(name="ORDERS", subjects=["orders"])
    for _ in range(messages):
        await js.publish("orders", b"x")
    await js.add_stream(name="COPY", mirror=nats_mirror("ORDERS"))


def nats_mirror(name: str):  # type: ignore[no-untyped-def]
    """Return a mirror as the official client declares it."""
    from nats.js.api import StreamSource

    return StreamSource(name=name)
