"""`headwater site stop`, `start`, `cut` and `heal`: try what happens while a site or a link is down."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from headwater.cli.site.files import FILE, FOLDER, directory_of, sites_of
from headwater.errors import Error

if TYPE_CHECKING:
    from headwater.site.outages import Outages
    from headwater.site.run_record import RunRecord

Command = TypeVar("Command", bound=Callable[..., Any])

MET_WAIT_S = 300.0
_POLL_S = 0.05


def _target(name: str) -> Callable[[Command], Command]:
    """Give a command its files, and the site or the link that it is about."""

    def decorate(command: Command) -> Command:
        command = click.option("--dir", "directory", type=FOLDER, help="Directory that `site up` was given.")(
            command
        )
        command = click.argument("name", metavar=name)(command)
        return click.argument("files", nargs=-1, required=True, type=FILE)(command)

    return decorate


@click.command()
@_target("SITE")
def stop(files: tuple[Path, ...], name: str, directory: Path | None) -> None:
    """Stop the servers and engines of a SITE that runs. Its data is kept.

    The other sites continue. It stays stopped until `site start`, or until the next `site up`.
    """
    from headwater.site.outages import find_site, stopped

    site = find_site(sites_of(files, None), name)
    _ask(directory_of(files, directory), lambda now: stopped(now, site))
    click.echo(f"{site} is stopped")


@click.command()
@_target("SITE")
def start(files: tuple[Path, ...], name: str, directory: Path | None) -> None:
    """Start the servers and engines of a SITE that was stopped, and wait until they are ready."""
    from headwater.site.outages import find_site, started

    site = find_site(sites_of(files, None), name)
    _ask(directory_of(files, directory), lambda now: started(now, site))
    click.echo(f"{site} is running")


@click.command()
@_target("LINK")
def cut(files: tuple[Path, ...], name: str, directory: Path | None) -> None:
    """Cut a LINK between two sites that run: the site that opens it, or SITE:TARGET.

    Both sites continue, each on its own. The link stays cut until `site heal`, or until the next `site up`.
    It needs nats-server 2.12 or later.
    """
    from headwater.site.outages import cut, find_link

    link = find_link(sites_of(files, None), name)
    _ask(directory_of(files, directory), lambda now: cut(now, link))
    click.echo(f"the link {link} is cut")


@click.command()
@_target("LINK")
def heal(files: tuple[Path, ...], name: str, directory: Path | None) -> None:
    """Open a LINK that was cut, and wait until it is up."""
    from headwater.site.outages import find_link, healed

    link = find_link(sites_of(files, None), name)
    _ask(directory_of(files, directory), lambda now: healed(now, link))
    click.echo(f"the link {link} is no longer cut")


def _ask(where: Path, change: Callable[[Outages], Outages]) -> None:
    """Ask the supervising process for a change; return once it has made it."""
    from headwater.site.outages import request

    _require_running(where)
    number = request(where, change)
    deadline = time.monotonic() + MET_WAIT_S
    record = _require_running(where)
    while record.outages.number < number:
        if time.monotonic() > deadline:
            raise Error(f"process {record.keeper.pid} did not do it in {MET_WAIT_S:g} s: see its log")
        time.sleep(_POLL_S)
        record = _require_running(where)
    if record.problem:
        raise Error(record.problem)


def _require_running(where: Path) -> RunRecord:
    from headwater.site.run_record import lives, read_record

    record = read_record(where)
    if record is None or not lives(record.keeper):
        raise Error("these sites do not run: start them with `headwater site up`")
    return record
