"""How sites fare: servers, links, engines, streams, and which origin has been silent since when."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import nats.errors

from headwater.errors import Error
from headwater.model.times import SECOND
from headwater.site.api_client import api_client
from headwater.site.layout import SiteFolders
from headwater.site.links import AccountLink, look, monitored, read_links
from headwater.site.run_record import RunRecord, lives, read_record
from headwater.site.topology import Account, Json, Node, Site

SILENT_S = 10.0
"""An origin that was not heard of for so long is called silent."""


class ServerStatus(msgspec.Struct, frozen=True):
    """One nats-server."""

    name: str
    address: str
    is_up: bool
    connections: int = 0
    version: str = ""


class UpstreamStatus(msgspec.Struct, frozen=True):
    """One source or mirror of a stream."""

    kind: str
    origin: str
    api: str
    lag: int
    silent_since: float = 0.0
    """Seconds since the epoch when the origin was last heard of, if that is long ago; -1 for never."""
    error: str = ""


class StreamStatus(msgspec.Struct, frozen=True):
    """One stream."""

    name: str
    messages: int
    size: int
    upstreams: tuple[UpstreamStatus, ...] = ()


class DomainStatus(msgspec.Struct, frozen=True):
    """What an engine serves to one account."""

    account: str
    domain: str
    is_up: bool
    problem: str = ""
    streams: tuple[StreamStatus, ...] = ()


class SiteStatus(msgspec.Struct, frozen=True):
    """One site."""

    name: str
    engine: str
    servers: tuple[ServerStatus, ...]
    domains: tuple[DomainStatus, ...]


class SitesStatus(msgspec.Struct, frozen=True):
    """All sites of a file."""

    keeper: int
    """Process id of what keeps them, zero when nothing does."""
    sites: tuple[SiteStatus, ...]
    links: tuple[AccountLink, ...]


async def status_of(layout: SiteFolders, now: float | None = None) -> SitesStatus:
    """Return how everything fares at this moment."""
    moment = time.time() if now is None else now
    record = read_record(layout.directory)
    links = await look(layout.topology, read_links(layout.directory), moment)
    sites = await asyncio.gather(*(_site(layout, site, moment) for site in layout.topology.sites))
    return SitesStatus(keeper_of(record), tuple(sites), tuple(links))


def keeper_of(record: RunRecord | None) -> int:
    """Return the process id of what keeps the sites up, zero when it is gone."""
    return record.keeper.pid if record is not None and lives(record.keeper) else 0


async def _site(layout: SiteFolders, site: Site, now: float) -> SiteStatus:
    servers = await asyncio.gather(*(_server(node) for node in site.nodes))
    domains = await asyncio.gather(
        *(_domain(site, account, layout.seed(site, account), now) for account in site.business)
    )
    return SiteStatus(site.name, site.engine, tuple(servers), tuple(domains))


async def _server(node: Node) -> ServerStatus:
    page = await monitored(node, "varz")
    address = f"{node.host}:{node.port}"
    if page is None:
        return ServerStatus(node.name, address, is_up=False)
    return ServerStatus(
        node.name, address, True, int(page.get("connections", 0)), str(page.get("version", ""))
    )


async def _domain(site: Site, account: Account, seed: Path, now: float) -> DomainStatus:
    domain = site.domain_of(account.name)
    try:
        async with api_client(site, account, seed) as client:
            streams = tuple(_stream(info, now) for info in await client.streams())
    except (Error, nats.errors.Error, OSError, TimeoutError) as error:
        return DomainStatus(account.name, domain, is_up=False, problem=str(error) or type(error).__name__)
    return DomainStatus(account.name, domain, is_up=True, streams=streams)


def _stream(info: Json, now: float) -> StreamStatus:
    mirror = info.get("mirror")
    upstreams = [_upstream("Mirror", mirror, now)] if mirror else []
    upstreams += [_upstream("Source", source, now) for source in info.get("sources") or ()]
    state = info["state"]
    return StreamStatus(info["config"]["name"], state["messages"], state["bytes"], tuple(upstreams))


def _upstream(kind: str, said: Json, now: float) -> UpstreamStatus:
    error = said.get("error")
    return UpstreamStatus(
        kind=kind,
        origin=said["name"],
        api=(said.get("external") or {}).get("api", ""),
        lag=int(said.get("lag", 0)),
        silent_since=silent_since(int(said.get("active", -1)), now),
        error=f"{error['description']} ({error.get('err_code', 0)})" if error else "",
    )


def silent_since(active_ns: int, now: float) -> float:
    """Return when an origin was last heard of, zero if that is not long ago, -1 if it never was."""
    if active_ns < 0:
        return -1.0
    return now - active_ns / SECOND if active_ns > SILENT_S * SECOND else 0.0
