"""A replicator inside the test, which connects as an engine's handover says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from engines import RunningEngine
from headwater.bus.connection import Connection
from headwater.control.catalog import Catalog
from headwater.loaded_settings import load
from headwater.replication import handover
from headwater.replication.driver import Driver
from headwater.replication.exchange import Exchange
from replication.fake_engine import Inline


@asynccontextmanager
async def replicating(running: RunningEngine, folder: str) -> AsyncIterator[None]:
    """Copy in this process what the engine plans."""
    catalog = Catalog(running.store / "catalog.db")
    options = handover.connect_options(str(running.store / handover.NAME), folder, "test replicator")
    connection = Connection(options)
    seat = folder if load(config=running.store / handover.NAME).settings.seats else ""
    await connection.connect()
    secret = handover.SecretFile(running.store / handover.NAME)
    exchange = Exchange(connection, catalog.store_id, seat, secret=secret)
    driving = asyncio.create_task(Driver(exchange, Inline()).drive())
    try:
        yield
    finally:
        driving.cancel()
        await asyncio.gather(driving, return_exceptions=True)
        await connection.close()
        catalog.close()
