"""The status of sites: servers, links, engines, streams, and origins that are not seen."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec

from headwater.errors import Error
from headwater.model.times import SECOND
from headwater.site.api_client import api_client
from headwater.site.engines import DOWN, STARTING
from headwater.site.journal_servers import JournalStatus, journal_status
from headwater.site.layout import SiteFolders
from headwater.site.links import AccountLink, look, monitored, read_links
from headwater.site.run_record import EngineState, RunRecord, lives, read_record
from headwater.site.topology import Account, Json, Node, Site

SILENT_S = 10.0
"""An origin that was not seen for this long is called silent."""


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
    """When a silent origin was last seen, in seconds since the epoch; 0 if not silent, -1 for never."""
    error: str = ""


class StreamStatus(msgspec.Struct, frozen=True):
    """One stream."""

    name: str
    messages: int
    size: int
    upstreams: tuple[UpstreamStatus, ...] = ()


class DomainStatus(msgspec.Struct, frozen=True):
    """The streams that an engine serves to one account."""

    account: str
    domain: str
    is_up: bool
    problem: str = ""
    streams: tuple[StreamStatus, ...] = ()


class EngineStatus(msgspec.Struct, frozen=True):
    """One engine that a file declares."""

    number: int
    state: str
    """`serving`, `standby`, `starting` or `down`."""
    since: float = 0.0
    """Seconds since the epoch; zero if that is not known."""
    epoch: int = 0
    pid: int = 0
    restarts: int = 0


class SiteStatus(msgspec.Struct, frozen=True):
    """One site."""

    name: str
    engine: str
    servers: tuple[ServerStatus, ...]
    domains: tuple[DomainStatus, ...]
    engines: tuple[EngineStatus, ...] = ()
    """Its own engines; none if the engine of another site serves it."""
    journal: JournalStatus | None = None

    @property
    def is_up(self) -> bool:
        """Return whether everything that the file declares for the site runs."""
        return (
            all(server.is_up for server in self.servers)
            and all(domain.is_up for domain in self.domains)
            and all(engine.state not in (DOWN, STARTING) for engine in self.engines)
            and (self.journal is None or self.journal.is_up)
        )


class SitesStatus(msgspec.Struct, frozen=True):
    """All sites of a file."""

    keeper: int
    """Id of the supervising process, zero if none runs."""
    sites: tuple[SiteStatus, ...]
    links: tuple[AccountLink, ...]

    @property
    def is_up(self) -> bool:
        """Return whether everything that the file declares runs."""
        return all(site.is_up for site in self.sites) and all(link.is_up for link in self.links)


async def status_of(layout: SiteFolders, now: float | None = None) -> SitesStatus:
    """Return the current status of all sites."""
    moment = time.time() if now is None else now
    record = read_record(layout.directory)
    links = await look(layout.topology, read_links(layout.directory), moment)
    recorded = record.engines if record is not None and keeper_of(record) else ()
    sites = await asyncio.gather(*(_site(layout, site, recorded, moment) for site in layout.topology.sites))
    return SitesStatus(keeper_of(record), tuple(sites), tuple(links))


def keeper_of(record: RunRecord | None) -> int:
    """Return the id of the supervising process, zero if it does not run."""
    return record.keeper.pid if record is not None and lives(record.keeper) else 0


async def _site(layout: SiteFolders, site: Site, recorded: tuple[EngineState, ...], now: float) -> SiteStatus:
    servers = await asyncio.gather(*(_server(node) for node in site.nodes))
    domains = await asyncio.gather(
        *(_domain(site, account, layout.seed(site, account), now) for account in site.business)
    )
    journal = await journal_status(layout, site)
    engines = _engines(layout, site, recorded) if site.engine == site.name else ()
    return SiteStatus(site.name, site.engine, tuple(servers), tuple(domains), tuple(engines), journal)


def _engines(layout: SiteFolders, site: Site, recorded: tuple[EngineState, ...]) -> list[EngineStatus]:
    """Return the status of each engine of a site; the record may be a second old."""
    known = {engine.number: engine for engine in recorded if engine.engine == site.name}
    found = []
    for number in layout.numbers(site.name):
        said = known.get(number)
        if said is None:
            found.append(EngineStatus(number, DOWN))
        elif said.process is None or not lives(said.process):
            found.append(EngineStatus(number, DOWN, said.since if said.state == DOWN else 0.0))
        else:
            process = said.process
            found.append(
                EngineStatus(number, said.state, said.since, said.epoch, process.pid, process.restarts)
            )
    return found


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
            infos = await client.pages("STREAM.LIST", "streams")
            streams = tuple(_stream(info, now) for info in infos)
    except (Error, OSError) as error:
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
    """Return when an origin was last seen, zero if recently, -1 if never."""
    if active_ns < 0:
        return -1.0
    return now - active_ns / SECOND if active_ns > SILENT_S * SECOND else 0.0
