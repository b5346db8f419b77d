"""The client that `headwater.connect` returns to asynchronous code."""

from __future__ import annotations

import asyncio
import time

from nats.aio.client import Client as NatsClient

from headwater.client.catch_up import STALLED_S, CatchUp, CatchUpError, ask_waits
from headwater.client.connection_settings import ConnectionSettings
from headwater.client.jetstream_api import JetStreamApi, connected_client
from headwater.client.stream_info import StreamInfo, stream_info
from headwater.errors import Error


class AsyncClient:
    """A connected client of the streams of one account and domain."""

    def __init__(self, nats: NatsClient, connection: ConnectionSettings) -> None:
        self._api = JetStreamApi(nats, connection.prefix, connection.timeout)

    @property
    def nats(self) -> NatsClient:
        """Return the connection of nats-py, to publish and to consume."""
        return self._api.nats

    async def stream_names(self, subject: str = "") -> list[str]:
        """Return the names of all streams, or of those that listen on a subject."""
        return await self._api.stream_names(subject)

    async def streams(self) -> list[StreamInfo]:
        """Return all streams that are served; `offline` names the others."""
        return [stream_info(info) for info in await self._api.pages("STREAM.LIST", "streams")]

    async def stream(self, name: str) -> StreamInfo:
        """Return one stream; a stream that does not exist raises `headwater.Error`."""
        return stream_info(await self._api.stream_info(name))

    async def offline(self) -> dict[str, str]:
        """Return the streams that exist and are not served, each with the reason, empty if unknown."""
        found: dict[str, str] = {}
        async for page in self._api.each_page("STREAM.LIST"):
            found |= dict.fromkeys(page.get("missing") or (), "")
            found |= page.get("offline") or {}
        return found

    async def catch_up(
        self, stream: str, *, within: float | None = None, stalled_after: float = STALLED_S
    ) -> StreamInfo:
        """Return once a stream has everything that its sources or its mirror held when the call began.

        Each origin must have been seen after the call began, and no upstream may report an error. Raise
        `CatchUpError` when `within` seconds have passed, when an origin does not exist, or when the engine
        has reported the copy as stalled for `stalled_after` seconds. Without `within`, an origin that is
        unreachable is waited for.
        """
        began = asked = time.monotonic()
        wait, waits = CatchUp(began, stalled_after), ask_waits()
        while True:
            info, now = await self.stream(stream), time.monotonic()
            if not info.upstreams:
                raise Error(f"stream {stream} has neither sources nor a mirror")
            reasons = wait.reasons(info.upstreams, asked, now)
            if not reasons:
                return info
            is_late = within is not None and now - began >= within
            if wait.is_hopeless(info.upstreams, now) or is_late:
                raise CatchUpError(stream, reasons, now - began)
            pause_s = waits.next_s()
            await asyncio.sleep(pause_s if within is None else min(pause_s, began + within - now))
            asked = time.monotonic()

    async def close(self) -> None:
        """Close the connection."""
        await self._api.nats.close()


async def open_client(connection: ConnectionSettings) -> AsyncClient:
    """Return a client that is connected."""
    return AsyncClient(await connected_client(connection), connection)
