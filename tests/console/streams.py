"""Both kinds of JetStream, with the connected API that the console uses, and a stream of messages to read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from client.clients import jetstream_of
from headwater.client.connection_settings import ConnectionSettings
from headwater.client.jetstream_api import JetStreamApi, connected_client
from headwater.console.raw_header_client import RawHeaderClient

KINDS = ("engine", "nats-server")
MESSAGES = 100


@asynccontextmanager
async def raw_api(api: JetStreamApi) -> AsyncIterator[JetStreamApi]:
    """Give the same API over a connection that keeps headers as they were sent, as the console has one."""
    url = api.nats.connected_url
    assert url is not None
    client = await connected_client(ConnectionSettings(server=url.geturl()), kind=RawHeaderClient)
    try:
        yield JetStreamApi(client, api.prefix, api.timeout)
    finally:
        await client.close()


@asynccontextmanager
async def filled(kind: str, directory: Path, *, allow_direct: bool = False) -> AsyncIterator[JetStreamApi]:
    """Give an API with a stream ORDERS of JSON documents on two subjects."""
    async with jetstream_of(kind, directory) as client:
        js = client.nats.jetstream(timeout=60)
        await js.add_stream(name="ORDERS", subjects=["orders.>"], allow_direct=allow_direct)
        for number in range(1, MESSAGES + 1):
            where = "eu" if number % 10 else "us"
            body = json.dumps({"id": number, "where": where}).encode()
            await js.publish(f"orders.{where}", body, headers={"number": str(number)})
        yield JetStreamApi(client.nats, "$JS.API", 60)
