"""The files that a command of `headwater site` takes, and the directory in which their sites run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

# The rest of `headwater.site` is imported where it is used, so that other commands start faster.
if TYPE_CHECKING:
    from headwater.site.topology import Topology

Command = TypeVar("Command", bound=Callable[..., Any])

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)


def site_options(command: Command) -> Command:
    """Give a command the directory of its sites, and the number of nodes."""
    command = click.option(
        "--nodes",
        type=click.Choice(["1", "3"]),
        help="Number of nodes of every site; overrides the file.",
    )(command)
    return click.option(
        "--dir",
        "directory",
        type=FOLDER,
        help="Directory for logs, stores and keys (.headwater/NAME next to the file).",
    )(command)


def site_files(command: Command) -> Command:
    """Give a command its files, its directory, and the number of nodes."""
    return click.argument("files", nargs=-1, required=True, type=FILE)(site_options(command))


def say(text: str) -> None:
    """Print a line that is not the result of a command."""
    click.echo(text, err=True)


def warn(text: str) -> None:
    """Print a warning."""
    say(f"warning: {text}")


def sites_of(files: Sequence[Path], nodes: str | None) -> Topology:
    """Return the sites, and print warnings about ignored keys."""
    from headwater.site.site_file import read_topology, resized

    topology = read_topology(files)
    for warning in topology.warnings:
        warn(warning)
    topology = replace(topology, warnings=())
    return topology if nodes is None else resized(topology, int(nodes))


def directory_of(files: Sequence[Path], directory: Path | None) -> Path:
    """Return the directory in which the sites of files run."""
    return (directory or files[0].parent / ".headwater" / files[0].stem).absolute()


def running_nodes(where: Path, nodes: str | None) -> str | None:
    """Return the number of nodes that is given, or that the running sites were started with."""
    from headwater.site.run_record import lives, read_record

    record = read_record(where)
    if nodes is not None or record is None or not lives(record.keeper):
        return nodes
    return record.nodes or None
