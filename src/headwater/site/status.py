"""The status of sites: servers, links, engines, streams, and origins that are not seen."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec

from headwater.errors import Error
from headwater.model.times import SECOND
from headwater.site.api_client import api_client
from headwater.site.engines import DOWN, STARTING, STOPPED, engine_name
from headwater.site.journal_servers import JournalStatus, journal_status
from headwater.site.layout import SiteFolders
from headwater.site.links import AccountLink, look, monitored, read_links
from headwater.site.outages import with_cuts
from headwater.site.run_record import Running, RunRecord, lives, read_record
from headwater.site.topology import Account, Json, Node, Site

_NOT_UP = (DOWN, STARTING, STOPPED)
REPLICATOR = "replicator"
SILENT_S = 10.0
"""An origin that was not seen for this long is called silent."""


class ServerStatus(msgspec.Struct, frozen=True):
    """One nats-server."""

    name: str
    address: str
    is_up: bool
    connections: int = 0
    version: str = ""
    restarts: int = 0


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
    is_known: bool = True
    """Whether an engine reported it; False for a declared stream of a site that does not answer."""


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
    """`serving`, `standby`, `starting`, `down`, or `stopped` by `site stop`."""
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
    is_stopped: bool = False
    """Whether it was stopped with `site stop`."""

    @property
    def is_up(self) -> bool:
        """Return whether everything that the file declares for the site runs."""
        return (
            all(server.is_up for server in self.servers)
            and all(domain.is_up for domain in self.domains)
            and all(engine.state not in _NOT_UP for engine in self.engines)
            and (self.journal is None or self.journal.is_up)
        )


class ReplicatorStatus(msgspec.Struct, frozen=True):
    """The process that copies for all sites."""

    is_up: bool
    pid: int = 0
    restarts: int = 0


class SitesStatus(msgspec.Struct, frozen=True):
    """All sites of a file."""

    keeper: int
    """Id of the supervising process, zero if none runs."""
    sites: tuple[SiteStatus, ...]
    links: tuple[AccountLink, ...]
    replicator: ReplicatorStatus | None = None
    """None if the sites run without it."""

    @property
    def is_up(self) -> bool:
        """Return whether everything that the file declares runs."""
        return (
            all(site.is_up for site in self.sites)
            and all(link.is_up for link in self.links)
            and (self.replicator is None or self.replicator.is_up)
        )


async def status_of(layout: SiteFolders, now: float | None = None) -> SitesStatus:
    """Return the current status of all sites."""
    moment = time.time() if now is None else now
    found = read_record(layout.directory)
    keeper = keeper_of(found)
    record = found if found is not None and keeper else RunRecord(Running("", 0, ""), ())
    topology = with_cuts(layout.topology, record.outages.cut)
    links = await look(topology, read_links(layout.directory), moment)
    sites = await asyncio.gather(*(_site(layout, site, record, moment) for site in topology.sites))
    return SitesStatus(keeper, tuple(sites), tuple(links), _replicator(record))


def keeper_of(record: RunRecord | None) -> int:
    """Return the id of the supervising process, zero if it does not run."""
    return record.keeper.pid if record is not None and lives(record.keeper) else 0


def _replicator(record: RunRecord) -> ReplicatorStatus | None:
    if REPLICATOR not in record.restarts:
        return None
    process = next((p for p in record.children if p.name == REPLICATOR and lives(p)), None)
    restarts = record.restarts[REPLICATOR]
    return ReplicatorStatus(process is not None, process.pid if process else 0, restarts)


async def _site(layout: SiteFolders, site: Site, record: RunRecord, now: float) -> SiteStatus:
    servers = await asyncio.gather(*(_server(node, record) for node in site.nodes))
    domains = await asyncio.gather(
        *(_domain(site, account, layout.seed(site, account), now) for account in site.business)
    )
    journal = await journal_status(layout, site)
    engines = _engines(layout, site, record) if site.engine == site.name else ()
    is_stopped = site.name in record.outages.stopped
    return SiteStatus(
        site.name, site.engine, tuple(servers), tuple(domains), tuple(engines), journal, is_stopped
    )


def _engines(layout: SiteFolders, site: Site, record: RunRecord) -> list[EngineStatus]:
    """Return the status of each engine of a site; the record may be a second old."""
    known = {engine.number: engine for engine in record.engines if engine.engine == site.name}
    away = STOPPED if site.name in record.outages.stopped else DOWN
    found = []
    for number in layout.numbers(site.name):
        said = known.get(number)
        restarts = record.restarts.get(engine_name(site.name, number), 0)
        if said is None:
            found.append(EngineStatus(number, away, restarts=restarts))
        elif said.process is None or not lives(said.process):
            since = said.since if said.state == DOWN else 0.0
            found.append(EngineStatus(number, away, since, restarts=restarts))
        else:
            pid = said.process.pid
            found.append(EngineStatus(number, said.state, said.since, said.epoch, pid, restarts))
    return found


async def _server(node: Node, record: RunRecord) -> ServerStatus:
    page = await monitored(node, "varz")
    said = page or {}
    return ServerStatus(
        node.name,
        f"{node.host}:{node.port}",
        page is not None,
        int(said.get("connections", 0)),
        str(said.get("version", "")),
        record.restarts.get(f"nats-server {node.name}", 0),
    )


async def _domain(site: Site, account: Account, seed: Path, now: float) -> DomainStatus:
    domain = site.domain_of(account.name)
    try:
        async with api_client(site, account, seed) as client:
            infos = await client.pages("STREAM.LIST", "streams")
            streams = tuple(_stream(info, now) for info in infos)
    except (Error, OSError) as error:
        declared = tuple(
            StreamStatus(stream.name, 0, 0, is_known=False)
            for stream in site.streams
            if stream.account == account.name
        )
        return DomainStatus(account.name, domain, is_up=False, problem=_problem(error), streams=declared)
    return DomainStatus(account.name, domain, is_up=True, streams=streams)


def _problem(error: Error | OSError) -> str:
    """Return a sentence for an engine that does not answer."""
    if isinstance(error, TimeoutError):
        return "no answer in time: see the log of the engine"
    return str(error) if isinstance(error, Error) else (error.strerror or "the connection broke")


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
