"""`headwater site status` as tables: servers, links, streams and upstreams."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from rich.text import Text

from headwater.cli.phrases import duration, number, size
from headwater.cli.render import Cell, Column, Sheet
from headwater.cli.stream.upstream_progress import UNKNOWN
from headwater.model.counted import counted
from headwater.model.times import SECOND
from headwater.site.links import AccountLink
from headwater.site.status import SitesStatus, StreamStatus, UpstreamStatus

_COLOURS = {"serving": "green", "standby": "green", "down": "red", "stopped": "yellow"}


def sheets(status: SitesStatus, now: float) -> Iterator[Sheet]:
    """Yield the tables that are not empty."""
    yield _servers(status)
    if any(site.engines for site in status.sites):
        yield _engines(status, now)
    if any(site.journal for site in status.sites):
        yield _journals(status)
    if status.links:
        yield _links(status.links, now)
    if any(domain.streams for site in status.sites for domain in site.domains):
        yield _streams(status)
    if rows := list(_upstreams(status, now)):
        columns = ("Site", "Stream", "Kind", "API Prefix", "Origin", "Lag", "Silent since", "Error")
        yield Sheet("Replication", [Column(name, wraps=name == "Error") for name in columns], rows)


def _servers(status: SitesStatus) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for site in status.sites:
        stopped = Text("stopped", "yellow") if site.is_stopped else None
        for server in site.servers:
            away = stopped or Text("no answer", "red")
            said: Cell = counted(server.connections, "connection") if server.is_up else away
            rows.append((site.name, f"nats-server {server.name}", server.address, said, str(server.restarts)))
        for domain in site.domains:
            away = stopped or Text(domain.problem, "red")
            said = counted(len(domain.streams), "stream") if domain.is_up else away
            where = f"{domain.account}, domain {domain.domain}"
            rows.append((site.name, f"engine {site.engine}", where, said, ""))
    if status.replicator is not None:
        said = "running" if status.replicator.is_up else Text("down", "red")
        where = f"process {status.replicator.pid}" if status.replicator.is_up else ""
        rows.append(("", "replicator", where, said, str(status.replicator.restarts)))
    wrapping = ("Where", "State")
    columns = [Column(name, wraps=name in wrapping) for name in ("Site", "Process", *wrapping, "Restarts")]
    kept = f"supervised by process {status.keeper}" if status.keeper else "not supervised"
    return Sheet(f"Sites, {kept}", columns, rows)


def _engines(status: SitesStatus, now: float) -> Sheet:
    rows: list[tuple[Cell, ...]] = [
        (
            site.name,
            str(engine.number),
            Text(engine.state, _COLOURS.get(engine.state, "yellow")),
            _when(engine.since, now),
            str(engine.epoch or ""),
            str(engine.pid or ""),
            str(engine.restarts),
        )
        for site in status.sites
        for engine in site.engines
    ]
    columns = ("Site", "Engine", "State", "Since", "Epoch", "Process", "Restarts")
    return Sheet("Engines", [Column(name) for name in columns], rows)


def _journals(status: SitesStatus) -> Sheet:
    rows: list[tuple[Cell, ...]] = []
    for site in status.sites:
        if site.journal is None:
            continue
        if not site.journal.servers:
            said: Cell = Text(site.journal.problem, "red") if site.journal.problem else "objects"
            rows.append((site.name, site.journal.address, "", said, ""))
        for server in site.journal.servers:
            state: Cell = Text("current", "green") if server.is_current else Text("behind", "yellow")
            state = state if server.is_up else Text("down", "red")
            rows.append((site.name, server.name, server.role, state, number(server.lag)))
    columns = [Column(name, wraps=name == "State") for name in ("Site", "Journal", "Role", "State", "Lag")]
    return Sheet("Journals", columns, rows)


def _links(links: tuple[AccountLink, ...], now: float) -> Sheet:
    rows = [
        (
            link.site,
            link.to,
            link.account,
            _link_state(link),
            _when(link.since, now),
        )
        for link in links
    ]
    columns = [Column(name) for name in ("Site", "To", "Account", "State", "Since")]
    return Sheet("Leaf links", columns, rows)


def _link_state(link: AccountLink) -> Cell:
    if link.is_cut:
        return Text("cut", "yellow")
    return Text("up", "green") if link.is_up else Text("silent", "red")


def _streams(status: SitesStatus) -> Sheet:
    rows = [
        (site.name, domain.domain, stream.name, *_figures(stream))
        for site in status.sites
        for domain in site.domains
        for stream in domain.streams
    ]
    return Sheet(
        "Streams", [Column(name) for name in ("Site", "Domain", "Stream", "Messages", "Bytes")], rows
    )


def _figures(stream: StreamStatus) -> tuple[Cell, Cell]:
    if not stream.is_known:
        return Text(UNKNOWN, "red"), Text(UNKNOWN, "red")
    return number(stream.messages), size(stream.size)


def _upstreams(status: SitesStatus, now: float) -> Iterator[tuple[Cell, ...]]:
    for site in status.sites:
        for domain in site.domains:
            for stream in domain.streams:
                for upstream in stream.upstreams:
                    yield (
                        *(site.name, stream.name, upstream.kind, upstream.api, upstream.origin),
                        _lag(upstream),
                        _silence(upstream, now),
                        Text(upstream.error, "red"),
                    )


def _lag(upstream: UpstreamStatus) -> Cell:
    is_known = upstream.silent_since >= 0 and not upstream.error
    return number(upstream.lag) if is_known else Text(UNKNOWN, "red")


def _silence(upstream: UpstreamStatus, now: float) -> Cell:
    if upstream.silent_since < 0:
        return Text("never seen", "red")
    return Text(_when(upstream.silent_since, now), "red") if upstream.silent_since else ""


def _when(since: float, now: float) -> str:
    if not since:
        return ""
    shown = datetime.fromtimestamp(since).strftime("%Y-%m-%d %H:%M:%S")
    return f"{shown} ({duration(max(int(now - since), 0) * SECOND)})"
