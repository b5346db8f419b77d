"""`headwater stream`: list streams, show one, remove it, seal it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import click

from headwater.cli import ask
from headwater.cli.client import AliasedGroup, Caller, client_command, group_flags
from headwater.cli.phrases import moment, number, since, size
from headwater.cli.render import Cell, Column, Sheet, console, show, show_json
from headwater.cli.session import Json
from headwater.cli.stream.info import info_rows, state_rows
from headwater.errors import SettingsError
from headwater.model.counted import counted

INTERNAL = ("KV_", "OBJ_", "MQTT_", "$MQTT_")
"""Prefixes of internal streams, which lists hide."""
_LIST_COLUMNS = (
    Column("Name", wraps=True),
    Column("Description", wraps=True, gives_way=2),
    Column("Created"),
    Column("Messages"),
    Column("Size"),
    Column("Last Message"),
)
_EPILOG = """\b
Examples:
  headwater stream add ORDERS --subjects 'ORDERS.>' --storage memory --defaults
  headwater stream add ARCHIVE --source ORDERS --source RETURNS
  headwater stream add REPORT --mirror ARCHIVE --defaults
  headwater stream report --watch
  headwater stream info ARCHIVE
  headwater stream backup ARCHIVE ./archive-backup
"""


@click.group(cls=AliasedGroup, epilog=_EPILOG)
@group_flags
def stream() -> None:
    """Manage streams and their sources and mirrors.

    Every command also accepts the connection flags of `headwater --help`.
    """


def chosen(caller: Caller, name: str | None) -> str:
    """Return the named stream, or the one that the user selects."""
    if name:
        return name
    if not ask.possible():
        raise SettingsError("missing stream name: pass STREAM; `headwater stream ls` lists them")
    return ask.one_of("stream", caller.run(lambda session: session.stream_names()))


def visible(infos: Iterable[Json], everything: bool) -> list[Json]:
    """Return the streams that are not internal, or all of them."""
    return [info for info in infos if everything or not info["config"]["name"].startswith(INTERNAL)]


def list_sheet(infos: Iterable[Json], now: int) -> Sheet:
    """Return the table of streams, smallest first."""
    ordered = sorted(infos, key=lambda info: (info["state"].get("bytes", 0), info["config"]["name"]))
    return Sheet("Streams", _LIST_COLUMNS, [_list_row(info, now) for info in ordered])


@stream.command()
@click.option("--subject", default="", help="Only streams that listen on this subject.")
@click.option("-n", "--names", is_flag=True, help="Show only names.")
@click.option("-a", "--all", "everything", is_flag=True, help="Include internal streams (KV_, OBJ_, MQTT).")
@client_command
def ls(caller: Caller, subject: str, names: bool, everything: bool) -> None:
    """List streams."""
    asked = {"subject": subject} if subject else None
    infos = visible(caller.run(lambda s: s.pages("STREAM.LIST", "streams", asked)), everything)
    show_list(caller, infos, names, everything)


def show_list(caller: Caller, infos: list[Json], names: bool, everything: bool = True) -> None:
    """Write streams as names, as JSON or as a table."""
    found = sorted(info["config"]["name"] for info in infos)
    if caller.as_json:
        show_json(found if names else infos)
    elif names:
        click.echo("".join(f"{name}\n" for name in found), nl=False)
    elif infos:
        show(list_sheet(infos, time.time_ns()))
    else:
        click.echo("No Streams defined" if everything else "No Streams defined (--all shows internal ones)")


@stream.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--state", "state_only", is_flag=True, help="Show only the state.")
@click.option("--no-select", is_flag=True, help="Do not ask for the stream.")
@client_command
def info(caller: Caller, name: str | None, state_only: bool, no_select: bool) -> None:
    """Show a stream's config, its upstreams and its state."""
    _show_info(caller, name, state_only, no_select)


@stream.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--no-select", is_flag=True, help="Do not ask for the stream.")
@client_command
def state(caller: Caller, name: str | None, no_select: bool) -> None:
    """Show a stream's state: messages, bytes, sequences, consumers."""
    _show_info(caller, name, True, no_select)


def _show_info(caller: Caller, name: str | None, state_only: bool, no_select: bool) -> None:
    if no_select and not name:
        raise SettingsError("missing stream name: pass STREAM, or leave out --no-select")
    which = chosen(caller, name)
    held = caller.run(lambda session: session.stream_info(which))
    if caller.as_json:
        show_json(held["state"] if state_only else held)
    else:
        show(state_rows(held) if state_only else info_rows(held))


@stream.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.argument("filter_subject", metavar="[FILTER]", default=">")
@click.option(
    "--sort",
    type=click.Choice(["name", "subjects", "messages", "count"]),
    default="messages",
    help="Sort by subject, or by messages (default).",
)
@click.option("-R", "--reverse", is_flag=True, help="Reverse the order.")
@click.option("--names", is_flag=True, help="Show only subjects.")
@client_command
def subjects(
    caller: Caller, name: str | None, filter_subject: str, sort: str, reverse: bool, names: bool
) -> None:
    """Show a stream's subjects and the number of messages of each."""
    which = chosen(caller, name)
    counts = caller.run(lambda session: session.subject_counts(which, filter_subject))
    by_name = sort in ("name", "subjects")
    ordered = sorted(
        counts.items(), key=lambda item: item if by_name else (item[1], item[0]), reverse=reverse
    )
    if caller.as_json:
        show_json([subject for subject, _ in ordered] if names else dict(ordered))
    elif names:
        click.echo("".join(f"{subject}\n" for subject, _ in ordered), nl=False)
    elif ordered:
        show(subjects_sheet(which, ordered, console().width))
    else:
        click.echo(f"No subjects found matching {filter_subject}")


def subjects_sheet(stream_name: str, counts: Sequence[tuple[str, int]], width: int) -> Sheet:
    """Return the table of subjects in up to three pairs of columns, as the width allows."""
    longest = max(len(subject) for subject, _ in counts)
    pairs = max(1, min(3, (min(width, 200) - 1) // (longest + 16), len(counts)))
    per_pair = -(-len(counts) // pairs)
    cells = [[subject, number(count)] for subject, count in counts]
    cells += [["", ""]] * (per_pair * pairs - len(cells))
    rows = [
        [cell for pair in range(pairs) for cell in cells[pair * per_pair + row]] for row in range(per_pair)
    ]
    columns = [Column("Subject", wraps=True), Column("Count")] * pairs
    return Sheet(f"{counted(len(counts), 'Subject')} in stream {stream_name}", columns, rows)


@stream.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def rm(caller: Caller, name: str | None, force: bool) -> None:
    """Remove a stream with all its messages and consumers."""
    which = chosen(caller, name)
    if ask.allowed(f"Really delete Stream {which}", force=force):
        answer = caller.run(lambda session: session.request(f"STREAM.DELETE.{which}"))
        if caller.as_json:
            show_json(answer)


@stream.command()
@click.argument("name", metavar="STREAM")
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def seal(caller: Caller, name: str, force: bool) -> None:
    """Seal a stream. Messages and config can then never be changed again."""
    if not ask.allowed(
        f"Really seal Stream {name}, sealed streams can not be unsealed or modified", force=force
    ):
        return
    held = caller.run(lambda session: session.stream_info(name))
    config = {**held["config"], "sealed": True}
    sealed = caller.run(lambda session: session.request(f"STREAM.UPDATE.{name}", config))
    if caller.as_json:
        show_json(sealed)
    else:
        show(info_rows(sealed))


def _list_row(info: Json, now: int) -> list[Cell]:
    config, held = info["config"], info["state"]
    return [
        config["name"],
        config.get("description", ""),
        moment(info.get("created", "")),
        number(held.get("messages", 0)),
        size(held.get("bytes", 0)),
        since(held.get("last_ts", ""), now),
    ]
