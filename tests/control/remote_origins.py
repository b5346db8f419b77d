"""Origins behind a link that a test can cut: a nats-server with JetStream, or another Headwater domain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cables import Cable, cable
from control.copiers import Copier, copying
from doors import Asker, Door, Json, Wanted, connected, opened_door
from servers import RunningServer, nats_server
from waits import until

LAKE = Wanted(domain_name="lake", prefixes=("$JS.lake.API",))


@dataclass
class RemoteSites:
    """An origin's site, and the engine that copies from it over the link."""

    door: Door
    copier: Copier
    origin: Asker
    link: Cable
    api: str
    server: RunningServer

    def source(self, name: str, **more: Any) -> Json:
        """Return the source of a stream at the origin's site."""
        return {"name": name, "external": {"api": self.api}, **more}

    async def left(self, stream: str) -> int:
        """Return how many messages the origin holds."""
        return int((await self.origin.ask(f"STREAM.INFO.{stream}"))["state"]["messages"])

    async def emptied(self, stream: str, left: int = 0) -> None:
        """Return once the origin holds this many messages; copying continues during the wait."""

        async def reached() -> bool:
            await self.copier.tick()
            return await self.left(stream) == left

        await until(reached, f"{stream} holds {left}")

    async def pour(self, subject: str, count: int, start: int = 0) -> None:
        """Publish numbered messages at the origin's site."""
        for number in range(start, start + count):
            assert "error" not in await self.origin.publish(subject, b"%d" % number)

    async def consumers(self, stream: str) -> list[str]:
        """Return the names of the origin's consumers."""
        return list((await self.origin.ask(f"CONSUMER.NAMES.{stream}"))["consumers"] or [])


Site = Callable[[Path], Any]


@asynccontextmanager
async def a_nats_server(store: Path, binary: str = "") -> AsyncIterator[tuple[RunningServer, Asker, str]]:
    """Run a real JetStream."""
    async with nats_server("server_name: hub", jetstream="hub", leaf=True, binary=binary) as server:
        connection = await connected(server.client_url)
        yield server, Asker(connection), "$JS.hub.API"
        await connection.close()


@asynccontextmanager
async def another_headwater(store: Path) -> AsyncIterator[tuple[RunningServer, Asker, str]]:
    """Run an engine of another domain."""
    wanted = Wanted(domain_name="edge", prefixes=("$JS.edge.API",), leaf=True)
    async with opened_door(store / "edge", wanted) as door:
        yield door.server, door.asker, "$JS.edge.API"


@asynccontextmanager
async def remote_sites(site: Site, store: Path) -> AsyncIterator[RemoteSites]:
    """Run a site and an engine that reaches it over a leaf link."""
    async with site(store) as (server, asker, api), cable(server.leaf_port) as link:
        remotes = f"leafnodes {{ reconnect: 1, remotes: [ {{ url: 'nats-leaf://127.0.0.1:{link.port}' }} ] }}"
        async with copying(store / "lake", LAKE, remotes) as (door, copier):
            yield RemoteSites(door, copier, asker, link, api, server)
