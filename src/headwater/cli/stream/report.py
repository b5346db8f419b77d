"""`stream report`: streams and their upstreams as tables, once or repeatedly, and as a graph."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click
from rich.console import Group, RenderableType
from rich.live import Live
from rich.text import Text

from headwater.cli.client import Caller, client_command
from headwater.cli.graph import dot_text, draw, replication_graph, write
from headwater.cli.phrases import DURATION
from headwater.cli.render import Sheet, console, show, show_json
from headwater.cli.reports import (
    inaccessible,
    leaders,
    replication_report,
    stored_rates,
    stream_report,
    upstreams,
)
from headwater.cli.session import Json, Session
from headwater.cli.stream.streams import visible
from headwater.cli.stream.upstream_progress import progress_sheet, waiting_note
from headwater.model.times import SECOND

_FILE = click.Path(dir_okay=False, path_type=Path)


@dataclass
class FoundStreams:
    """The streams of a JetStream API, and those that did not answer."""

    infos: list[Json]
    missing: list[str]
    offline: list[str]


@dataclass(frozen=True)
class ReportScope:
    """The streams to report on, and the format."""

    subject: str = ""
    cluster: str = ""
    sort: str = "bytes"
    raw: bool = False
    leaders: bool = False
    everything: bool = False


@click.command()
@click.option("--subject", default="", help="Only streams that listen on this subject.")
@click.option("--cluster", default="", help="Only streams in this cluster.")
@click.option("-o", "--consumers", "sort", flag_value="consumers", help="Sort by consumers.")
@click.option("-m", "--messages", "sort", flag_value="messages", help="Sort by messages.")
@click.option("-n", "--name", "sort", flag_value="name", help="Sort by name.")
@click.option("-t", "--storage", "sort", flag_value="storage", help="Sort by storage.")
@click.option("-r", "--raw", is_flag=True, help="Show plain numbers.")
@click.option(
    "-l", "--leaders", "by_leader", is_flag=True, help="Also show how many streams each server leads."
)
@click.option("-a", "--all", "everything", is_flag=True, help="Include internal streams (KV_, OBJ_, MQTT).")
@click.option("--dot", type=_FILE, help="Write the replication graph as GraphViz text.")
@click.option("--svg", type=_FILE, help="Draw the replication graph as SVG.")
@click.option("--png", type=_FILE, help="Draw the replication graph as PNG (needs GraphViz).")
@click.option(
    "-w",
    "--watch",
    is_flag=True,
    help="Update the report until Ctrl-C; shows rates.",
)
@click.option("--interval", type=DURATION, default="2s", help="Interval of --watch.")
@client_command
def report(
    caller: Caller,
    subject: str,
    cluster: str,
    sort: str | None,
    raw: bool,
    by_leader: bool,
    everything: bool,
    dot: Path | None,
    svg: Path | None,
    png: Path | None,
    watch: bool,
    interval: int,
) -> None:
    """Report on all streams: their messages and sizes, and the lag of their mirrors and sources."""
    # Sizes change while they are watched, and rows must not jump.
    sort = sort or ("name" if watch else "bytes")
    view = ReportScope(subject, cluster, sort, raw, by_leader, everything)
    if watch:
        try:
            caller.run(lambda session: _watch(session, view, max(interval / SECOND, 0.1)))
        except KeyboardInterrupt:
            return
    found = caller.run(lambda session: find_streams(session, view))
    if caller.as_json:
        show_json(found.infos)
    else:
        click.echo("Obtaining Stream stats\n")
        show(*sheets(found, view))
    _write_maps(found.infos, dot, svg, png)


async def find_streams(session: Session, view: ReportScope) -> FoundStreams:
    """Return the streams in the scope."""
    found = FoundStreams([], [], [])
    async for page in session.each_page("STREAM.LIST", {"subject": view.subject} if view.subject else None):
        found.infos += page.get("streams") or ()
        found.missing += page.get("missing") or ()
        found.offline += page.get("offline") or ()
    found.infos = [
        info
        for info in visible(found.infos, view.everything)
        if not view.cluster or (info.get("cluster") or {}).get("name") == view.cluster
    ]
    return found


def sheets(
    found: FoundStreams, view: ReportScope, *, bars: bool = False, rates: Mapping[str, float] | None = None
) -> list[Sheet | Text]:
    """Return the tables of a report, with progress bars if `bars`, and with rates where they are given."""
    if not found.infos:
        return [Text("No Streams defined")]
    tables: list[Sheet | Text] = [stream_report(found.infos, view.sort, raw=view.raw, rates=rates)]
    if (replication := replication_report(found.infos, raw=view.raw)) is not None:
        tables.append(replication)
    copied = [(info["config"]["name"], each) for info in found.infos for _, each in upstreams(info)]
    if (progress := progress_sheet(copied, bars=bars)) is not None:
        tables.append(progress)
    if (note := waiting_note(each for _, each in copied)) is not None:
        tables.append(note)
    if view.leaders:
        tables.append(leaders(found.infos))
    if found.missing:
        tables.append(inaccessible("Inaccessible Streams", sorted(found.missing)))
    if found.offline:
        tables.append(inaccessible("Offline Streams", sorted(found.offline)))
    return tables


async def _watch(session: Session, view: ReportScope, seconds: float) -> None:
    """Write the report repeatedly: in place on a terminal, otherwise one after another."""
    out = console()
    if not out.is_terminal:
        async for found, rates in _looks(session, view, seconds):
            show(*sheets(found, view, rates=rates), Text(""), to=out)
            out.file.flush()
    with Live(console=out, auto_refresh=False, screen=True) as live:
        async for found, rates in _looks(session, view, seconds):
            live.update(_stacked(sheets(found, view, bars=True, rates=rates)), refresh=True)


async def _looks(
    session: Session, view: ReportScope, seconds: float
) -> AsyncIterator[tuple[FoundStreams, dict[str, float]]]:
    """Yield the streams at each interval, with the rates since the look before."""
    before: list[Json] = []
    before_s = time.monotonic()
    while True:
        found = await find_streams(session, view)
        now_s = time.monotonic()
        yield found, stored_rates(before, found.infos, now_s - before_s)
        before, before_s = found.infos, now_s
        await asyncio.sleep(seconds)


def _stacked(tables: Sequence[RenderableType]) -> Group:
    return Group(
        *[part for table in tables for part in (table, Text(""))], Text("Press Ctrl-C to stop", "dim")
    )


def _write_maps(infos: list[Json], dot: Path | None, svg: Path | None, png: Path | None) -> None:
    graph = replication_graph(infos)
    if not (dot or svg or png):
        return
    if not graph.edges:
        click.echo("There are no sources or mirrors: no graph was written", err=True)
        return
    if dot:
        write(dot, dot_text(graph))
        click.echo(f"Wrote the replication graph to {dot}", err=True)
    for path, form in ((svg, "svg"), (png, "png")):
        if path:
            click.echo(f"Wrote the replication graph to {path}, drawn by {draw(graph, path, form)}", err=True)
