"""Reads one site: its account, its streams with their upstreams, some of its consumers, its metrics."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from headwater.client.jetstream_api import JetStreamApi
from headwater.console.monitoring_client import MonitoringClient
from headwater.console.site_connection import SiteConnection
from headwater.console.snapshot import Json, SiteSnapshot
from headwater.errors import Error

CONSUMER_LISTS_PER_READ = 40
"""How many streams are asked for their consumers at each read; the others have their turn later."""
AT_ONCE = 8
ACCOUNT_S = 5.0
"""The account's limits and totals are not older than this: an engine adds up all its streams for them."""
PAGES_SHARE = 0.005
"""The share of time for which an engine's pages may be read: metrics of many streams are long."""
PIPELINES_WAIT_S = 1.0
PIPELINES_RETRY_S = 60.0
"""After how long a site that does not answer about pipelines is asked again: each time costs the wait."""
PAGES_LONGEST_S = 30.0
"""The pages are not older than this, and the time of a read."""


class SiteReader:
    """Reads the same site again and again, and spreads what is expensive over several reads."""

    def __init__(self, connection: SiteConnection) -> None:
        self.connection = connection
        self.site = connection.site
        url = connection.site.monitoring_url
        self.monitoring = MonitoringClient(url) if url else None
        """None if no address is known."""
        self._known_account: Json = {}
        self._account_due_s = 0.0
        """When the account is read again, by the monotonic clock."""
        self._pages: dict[str, Any] = {}
        """The parts of a snapshot that were read last from the engine's pages."""
        self._pages_due_s = 0.0
        """When they are read again, by the monotonic clock."""
        self._pipelines_due_s = 0.0
        """When the pipelines are read again, by the monotonic clock."""
        self._last = SiteSnapshot(self.site.name, 0.0)
        self._turns: deque[str] = deque()
        """The streams with consumers, the one that was asked longest ago first."""

    async def read(self) -> SiteSnapshot:
        """Return the site as it is now; if it does not answer, as it was, with the error."""
        try:
            self._last = await self._read()
        except Error as error:
            self._last = replace(self._last, error=str(error))
        return self._last

    async def _read(self) -> SiteSnapshot:
        api = await self.connection.api()
        account = await self._account(api)
        listed, offline = await _streams(api)
        monitored = await self._monitored()
        return SiteSnapshot(
            site=self.site.name,
            at_s=time.time(),
            account=account,
            streams=listed,
            offline=offline,
            consumers=await self._consumers(api, listed),
            server=_server_of(api),
            pipelines=await self._pipelines(api),
            **monitored,
        )

    async def _account(self, api: JetStreamApi) -> Json:
        now_s = time.monotonic()
        if now_s >= self._account_due_s or self._last.error:
            self._known_account = await api.request("INFO")
            self._account_due_s = now_s + ACCOUNT_S
        return self._known_account

    async def _pipelines(self, api: JetStreamApi) -> Sequence[Json]:
        """Return the pipelines; none of a plain nats-server, or where the user may not see them."""
        if time.monotonic() < self._pipelines_due_s:
            return ()
        try:
            answer = await api.request("PIPELINE.LIST", wait=PIPELINES_WAIT_S)
        except Error:
            self._pipelines_due_s = time.monotonic() + PIPELINES_RETRY_S
            return ()
        return tuple(answer.get("pipelines") or ())

    async def _monitored(self) -> dict[str, Any]:
        """Return the parts of a snapshot that come from the engine's pages."""
        began_s = time.monotonic()
        if self.monitoring is None or began_s < self._pages_due_s:
            return self._pages
        try:
            self._pages = await asyncio.to_thread(_pages, self.monitoring)
        except Error as error:
            self._pages = {"metrics_error": str(error)}
            return self._pages
        took_s = time.monotonic() - began_s
        self._pages_due_s = began_s + took_s + min(took_s / PAGES_SHARE, PAGES_LONGEST_S)
        return self._pages

    async def _consumers(self, api: JetStreamApi, streams: Mapping[str, Json]) -> dict[str, Sequence[Json]]:
        """Return the known consumers, those of the streams whose turn it is read again."""
        wanted = {name for name, info in streams.items() if info["state"].get("consumer_count")}
        known = {name: found for name, found in self._last.consumers.items() if name in wanted}
        self._turns = deque(name for name in self._turns if name in wanted)
        self._turns.extend(sorted(wanted - set(self._turns)))
        turn = [self._turns[place] for place in range(min(CONSUMER_LISTS_PER_READ, len(self._turns)))]
        self._turns.rotate(-len(turn))
        gate = asyncio.Semaphore(AT_ONCE)
        for name, found in await asyncio.gather(*(_consumers_of(api, name, gate) for name in turn)):
            if found is not None:
                known[name] = found
        return known


async def _streams(api: JetStreamApi) -> tuple[dict[str, Json], dict[str, str]]:
    """Return the streams by name, and why some are offline."""
    found: dict[str, Json] = {}
    offline: dict[str, str] = {}
    async for page in api.each_page("STREAM.LIST"):
        found |= {info["config"]["name"]: info for info in page.get("streams") or ()}
        offline |= page.get("offline") or {}
    return found, offline


async def _consumers_of(
    api: JetStreamApi, stream: str, gate: asyncio.Semaphore
) -> tuple[str, Sequence[Any] | None]:
    """Return the consumers of a stream; None if it was deleted meanwhile or does not answer."""
    async with gate:
        try:
            return stream, await api.pages(f"CONSUMER.LIST.{stream}", "consumers")
        except Error:
            return stream, None


def _pages(monitoring: MonitoringClient) -> dict[str, Any]:
    """Return the engine's pages; those that it does not serve are empty."""
    metrics = monitoring.metrics()
    channels = monitoring.json("/streaming/channelsz?subs=1&limit=1000")
    streaming = {
        "channels": channels.get("channels") or [],
        "clients": monitoring.json("/streaming/clientsz?subs=0&limit=1000").get("clients") or [],
    }
    return {
        "metrics": metrics,
        "readiness": monitoring.readiness(),
        "warnings": monitoring.json("/warnings").get("warnings") or (),
        "streaming": streaming if channels else {},
    }


def _server_of(api: JetStreamApi) -> str:
    url = api.nats.connected_url
    where = f"{url.hostname}:{url.port}" if url is not None else ""
    found = api.nats.connected_server_version
    return f"nats-server {found.major}.{found.minor}.{found.patch} at {where}"
