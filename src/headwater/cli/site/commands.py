"""`headwater site`: run hub and spokes from one file on this machine, or write files for real hosts."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from headwater.cli.client import AliasedGroup, json_flag
from headwater.cli.contexts import ContextFolder
from headwater.cli.render import show, show_json
from headwater.cli.serve import run_until_signalled
from headwater.cli.site.files import (
    FILE,
    FOLDER,
    directory_of,
    running_nodes,
    say,
    site_files,
    sites_of,
    warn,
)
from headwater.cli.site.outages import cut, heal, start, stop
from headwater.errors import Error
from headwater.model.counted import counted

# The rest of `headwater.site` is imported where it is used, so that other commands start faster.
if TYPE_CHECKING:
    from headwater.site.layout import SiteFolders
    from headwater.site.topology import Topology

END_WAIT_S = 120.0
WATCH_S = 2.0
_EPILOG = """\b
Examples:
  headwater site up cinemas.yaml
      run servers, engines, streams and one Spark until Ctrl-C
  headwater site up cinemas.yaml --detach && headwater --context hub stream report
  headwater site status cinemas.yaml --watch
  headwater site stop cinemas.yaml spoke-1
  headwater site start cinemas.yaml spoke-1
  headwater site cut cinemas.yaml spoke-1
  headwater site heal cinemas.yaml spoke-1
      try what happens while a site or a link is away
  headwater site down cinemas.yaml
  headwater site config cinemas.yaml ./hosts --at /etc/headwater
      write files for real hosts
  headwater site up headquarter.yaml cinema-a.yaml cinema-b.yaml --nodes 1
      from values files of three releases of the nats Helm chart
"""


@click.group(cls=AliasedGroup, epilog=_EPILOG)
def site() -> None:
    """Run sites that are connected by leaf nodes, from one file."""


for _command in (stop, start, cut, heal):
    site.add_command(_command)


@site.command()
@site_files
@click.option("-d", "--detach", is_flag=True, help="Run in the background; `site down` stops it.")
@click.option("--spark/--no-spark", default=True, help="Also run the replicator.")
@click.option("--streams/--no-streams", default=True, help="Create the streams that the file declares.")
@click.option("--spark-master", "master", default="local[2]", show_default=True, help="Spark master.")
@click.option(
    "--spark-driver-memory", "memory", default="512m", show_default=True, help="Memory of Spark's driver."
)
@click.option("--context-prefix", default="", metavar="TEXT", help="Prefix of context names.")
@click.option("--contexts/--no-contexts", default=True, help="Write a context for each site.")
def up(
    files: tuple[Path, ...],
    directory: Path | None,
    nodes: str | None,
    detach: bool,
    spark: bool,
    streams: bool,
    master: str,
    memory: str,
    context_prefix: str,
    contexts: bool,
) -> None:
    """Run the sites of FILES on this machine, until Ctrl-C."""
    where = directory_of(files, directory)
    topology = _fitting(sites_of(files, nodes), nodes, where, warn)
    if contexts:
        _write_contexts(topology, context_prefix)
    if detach:
        how = ["--spark" if spark else "--no-spark", "--streams" if streams else "--no-streams"]
        how += ["--spark-master", master, "--spark-driver-memory", memory]
        how += ["--nodes", nodes] if nodes else []
        _up_detached(files, where, how)
        return
    from headwater.site.fleet import Fleet, FleetOptions
    from headwater.site.layout import SiteFolders

    options = FleetOptions(master, memory, spark, streams, tuple(map(str, files)), nodes or "")
    run_until_signalled(Fleet(SiteFolders(topology, where), options, say).run())
    say("all processes have stopped")


@site.command()
@site_files
@click.option("--context-prefix", default="", metavar="TEXT", help="Prefix of context names.")
def down(files: tuple[Path, ...], directory: Path | None, nodes: str | None, context_prefix: str) -> None:
    """Stop the sites of FILES that run on this machine. Their data is kept."""
    from headwater.cli.site.contexts import remove_contexts
    from headwater.site.run_record import lives, read_record, remove_record

    where = directory_of(files, directory)
    remove_contexts(ContextFolder.of_user(), sites_of(files, nodes), context_prefix)
    record = read_record(where)
    if record is None or not lives(record.keeper):
        remove_record(where)
        click.echo("nothing is running")
        return
    children = counted(len(record.children), "child process", "child processes")
    say(f"stopping process {record.keeper.pid} and its {children}")
    # Checked again right before the kill: the process id may have been reused.
    if lives(record.keeper):
        os.kill(record.keeper.pid, signal.SIGTERM)
    deadline = time.monotonic() + END_WAIT_S
    while any(lives(process) for process in (record.keeper, *record.children)):
        if time.monotonic() > deadline:
            left = [p for p in (record.keeper, *record.children) if lives(p)]
            names = ", ".join(f"{process.name} ({process.pid})" for process in left)
            raise Error(f"still running after {END_WAIT_S:g} s: {names}; see {where / 'site.log'}")
        time.sleep(0.05)
    click.echo("all processes have stopped")


@site.command()
@site_files
@json_flag
@click.option("--watch", is_flag=True, help="Show it again every two seconds, until Ctrl-C.")
def status(
    files: tuple[Path, ...], directory: Path | None, nodes: str | None, as_json: bool, watch: bool
) -> None:
    """Show servers, engines, journals, leaf links, streams and replication of the sites of FILES.

    The exit code is 1 if anything that the file declares is down.
    """
    from headwater.site.layout import SiteFolders

    where = directory_of(files, directory)
    nodes = running_nodes(where, nodes)
    layout = SiteFolders(_fitting(sites_of(files, nodes), nodes, where), where)
    root = click.get_current_context().find_root().obj or {}
    plain = as_json or bool(root.get("as_json"))
    is_up = _show_status(layout, plain)
    while watch:
        time.sleep(WATCH_S)
        click.clear()
        is_up = _show_status(layout, plain)
    sys.exit(0 if is_up else 1)


def _show_status(layout: SiteFolders, plain: bool) -> bool:
    """Show the status once; return whether everything is up."""
    from headwater.cli.site.status import sheets
    from headwater.site.status import status_of

    found = asyncio.run(status_of(layout))
    if plain:
        show_json({**msgspec.to_builtins(found), "is_up": found.is_up})
    else:
        show(*sheets(found, time.time()))
    return found.is_up


@site.command()
@click.argument("files", nargs=-1, required=True, type=FILE)
@click.argument("directory", type=FOLDER)
@click.option("--at", type=FOLDER, help="Path of the directory on the hosts (DIRECTORY).")
@click.option(
    "--stores",
    type=FOLDER,
    default=Path("/var/lib/headwater"),
    show_default=True,
    help="Directory of the stores on the hosts.",
)
def config(files: tuple[Path, ...], directory: Path, at: Path | None, stores: Path) -> None:
    """Write the configuration of the sites of FILES to DIRECTORY, for separate hosts."""
    from headwater.site.copies import on_hosts
    from headwater.site.hosts import sharing_a_host, unreachable, write_hosts

    topology = on_hosts(sites_of(files, None))
    for warning in topology.warnings:
        warn(warning)
    for name in unreachable(topology):
        warn(f"links connect to {name} at 127.0.0.1: set the host of that site")
    for name in sharing_a_host(topology):
        warn(f"the servers that keep the journal of {name} share one host: list three of them as its host")
    written = write_hosts(topology, directory, at or directory.absolute(), stores)
    for path in written:
        click.echo(str(path))
    say(
        f"{counted(len(written), 'file')}, checked by nats-server; some contain secrets, so keep them private"
    )


def _fitting(
    topology: Topology, nodes: str | None, where: Path, warn: Callable[[str], None] | None = None
) -> Topology:
    """Return the sites with the journals that they run with; refuse more replicas than those keep."""
    from headwater.site.copies import lowered, require_copies, with_older_stores

    topology = with_older_stores(topology, where)
    if nodes is not None:
        topology = lowered(topology, f"--nodes is {nodes}")
    if warn is not None:
        for warning in topology.warnings:
            warn(warning)
    require_copies(topology)
    return topology


def _write_contexts(topology: Topology, prefix: str) -> None:
    from headwater.cli.site.contexts import write_contexts

    written, foreign = write_contexts(ContextFolder.of_user(), topology, prefix)
    if written:
        say(f"contexts: {', '.join(written)}")
    for name in foreign:
        say(f"warning: the context {name} was not written by `site` and is kept: pass --context-prefix")


def _up_detached(files: Sequence[Path], where: Path, how: Sequence[str]) -> None:
    """Start the same command in the background, and return once it is ready."""
    from headwater.site.run_record import read_record

    command = ["site", "up", *map(str, files), "--dir", str(where), "--no-contexts", *how]
    where.mkdir(parents=True, exist_ok=True)
    log = where / "site.log"
    begins = log.stat().st_size if log.exists() else 0
    with log.open("ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "headwater", *command],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    shown = begins
    while True:
        ended = process.poll()
        shown = _show_from(log, shown)
        record = read_record(where)
        if record is not None and record.keeper.pid == process.pid and record.is_ready:
            _show_from(log, shown)
            click.echo(f"running in the background as process {process.pid}; its log is {log}")
            return
        if ended is not None:
            raise Error(f"the sites could not be started: see {log}")
        time.sleep(0.1)


def _show_from(log: Path, place: int) -> int:
    """Show the complete lines of a log from an offset; return the offset of the next line."""
    with log.open("rb") as file:
        file.seek(place)
        whole, end, _ = file.read().rpartition(b"\n")
    if whole:
        say(whole.decode(errors="replace"))
    return place + len(whole) + len(end)
