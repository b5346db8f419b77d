"""The console's connection to one site: opened when it is first needed, and again after it was lost."""

from __future__ import annotations

import asyncio

from nats.aio.client import Client

from headwater.client.jetstream_api import Advice, JetStreamApi, connected_client
from headwater.console.raw_header_client import RawHeaderClient
from headwater.console.watched_site import WatchedSite

ADVICE = Advice(
    no_responders="the engine is not reachable: it is stopped, or no link leads to its domain",
    timeout="the engine is not reachable, or very busy",
)


class SiteConnection:
    """One NATS client for all browsers."""

    def __init__(self, site: WatchedSite) -> None:
        self.site = site
        self._client: Client | None = None
        """None before the first use and after a close."""
        self._opening = asyncio.Lock()
        self.without_batches: dict[str, float] = {}
        """Streams that were not read in batches, by name: until when, by the monotonic clock, not to try."""

    async def api(self) -> JetStreamApi:
        """Return the connected JetStream API; `UnreachableError` if the site does not answer."""
        async with self._opening:
            if self._client is None or self._client.is_closed:
                self._client = await connected_client(self.site.connection, kind=RawHeaderClient)
            connection = self.site.connection
            return JetStreamApi(self._client, connection.prefix, connection.timeout, ADVICE)

    async def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            try:
                await client.close()
            except OSError:
                pass  # the server closed it before
