"""`headwater consumer`: list consumers, show, pause, resume and remove one."""

from __future__ import annotations

import time

import click

from headwater.cli import ask
from headwater.cli.client import AliasedGroup, Caller, client_command, group_flags
from headwater.cli.consumer.config import read_pause
from headwater.cli.consumer.info import info_rows, list_sheet, report_sheet, state_rows
from headwater.cli.phrases import duration, moment
from headwater.cli.render import show, show_json
from headwater.cli.session import Json, Session
from headwater.cli.stream.streams import chosen
from headwater.errors import Error, SettingsError
from headwater.model.times import SECOND, format_time

_EPILOG = """\b
Examples:
  headwater consumer add ORDERS WORK --pull --defaults
  headwater consumer add ORDERS AUDIT --target audit.orders --filter 'orders.eu.>' --deliver 1h
  headwater consumer next ORDERS WORK --count 10
  headwater consumer report ORDERS
  headwater consumer pause ORDERS WORK 1h --force
  headwater consumer copy ORDERS WORK WORK2 --max-deliver 5
"""


@click.group(cls=AliasedGroup, epilog=_EPILOG)
@group_flags
def consumer() -> None:
    """Manage the consumers of a stream.

    Every command also accepts the connection flags of `headwater --help`.
    """


def both(caller: Caller, stream: str | None, name: str | None, *, select: bool = True) -> tuple[str, str]:
    """Return the named stream and consumer, or those that the user selects."""
    if not select and not (stream and name):
        raise SettingsError("missing consumer: pass STREAM and CONSUMER, or leave out --no-select")
    which = chosen(caller, stream)
    if name:
        return which, name
    if not ask.possible():
        raise SettingsError(
            f"missing consumer name: pass CONSUMER; `headwater consumer ls {which}` lists them"
        )
    return which, ask.one_of("consumer", caller.run(lambda session: names_of(session, which)))


async def names_of(session: Session, stream: str) -> list[str]:
    """Return the names of a stream's consumers, sorted."""
    return sorted(await session.pages(f"CONSUMER.NAMES.{stream}", "consumers"))


async def info_of(session: Session, stream: str, name: str) -> Json:
    """Return a consumer's config and state."""
    return await session.request(f"CONSUMER.INFO.{stream}.{name}")


@consumer.command()
@click.argument("stream", required=False)
@click.option("-n", "--names", is_flag=True, help="Show only names.")
@click.option("--no-select", is_flag=True, hidden=True)
@client_command
def ls(caller: Caller, stream: str | None, names: bool, no_select: bool) -> None:
    """List the consumers of a stream."""
    which = chosen(caller, stream)
    if names:
        found = caller.run(lambda session: names_of(session, which))
        if caller.as_json:
            show_json(found)
        else:
            click.echo("".join(f"{name}\n" for name in found), nl=False)
        return
    infos = caller.run(lambda session: session.pages(f"CONSUMER.LIST.{which}", "consumers"))
    if caller.as_json:
        show_json(infos)
    elif infos:
        show(list_sheet(infos))
    else:
        click.echo("No Consumers defined")


@consumer.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--no-select", is_flag=True, help="Do not ask for the consumer.")
@client_command
def info(caller: Caller, stream: str | None, name: str | None, no_select: bool) -> None:
    """Show a consumer's config and state."""
    which = both(caller, stream, name, select=not no_select)
    held = caller.run(lambda session: info_of(session, *which))
    if caller.as_json:
        show_json(held)
    else:
        show(info_rows(held))


@consumer.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--no-select", is_flag=True, help="Do not ask for the consumer.")
@client_command
def state(caller: Caller, stream: str | None, name: str | None, no_select: bool) -> None:
    """Show a consumer's state."""
    which = both(caller, stream, name, select=not no_select)
    held = caller.run(lambda session: info_of(session, *which))
    if caller.as_json:
        show_json({key: value for key, value in held.items() if key != "config"})
    else:
        show(state_rows(held))


@consumer.command()
@click.argument("stream", required=False)
@click.option("-r", "--raw", is_flag=True, help="Show plain numbers.")
@client_command
def report(caller: Caller, stream: str | None, raw: bool) -> None:
    """Show the progress of a stream's consumers."""
    which = chosen(caller, stream)

    async def work(session: Session) -> tuple[Json, list[Json]]:
        held = await session.stream_info(which)
        return held, await session.pages(f"CONSUMER.LIST.{which}", "consumers")

    held, infos = caller.run(work)
    if caller.as_json:
        show_json(infos)
    elif infos:
        show(report_sheet(held, infos, raw=raw))
    else:
        click.echo("No Consumers defined")


@consumer.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def rm(caller: Caller, stream: str | None, name: str | None, force: bool) -> None:
    """Remove a consumer. The stream keeps its messages."""
    which = both(caller, stream, name)
    if ask.allowed(f"Really delete Consumer {' > '.join(which)}", force=force):
        answer = caller.run(lambda session: session.request(f"CONSUMER.DELETE.{'.'.join(which)}"))
        if caller.as_json:
            show_json(answer)


@consumer.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.argument("until", metavar="[TIME|DURATION]", required=False)
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def pause(caller: Caller, stream: str | None, name: str | None, until: str | None, force: bool) -> None:
    """Pause a consumer until a time (UTC), or for a duration."""
    which = both(caller, stream, name)
    if until is None:
        if not ask.possible():
            raise SettingsError(
                "missing end of the pause: pass a time (2026-01-31 12:00:00) or a duration (1h30m)"
            )
        until = str(ask.text("Pause until (time or duration)", "1h"))
    deadline = read_pause(until)
    if not ask.allowed(f"Really pause Consumer {' > '.join(which)} until {moment(deadline)}", force=force):
        return
    request = {"pause_until": deadline}
    answer = caller.run(lambda session: session.request(f"CONSUMER.PAUSE.{'.'.join(which)}", request))
    if not answer.get("paused"):
        raise Error(
            f"{' > '.join(which)} was not paused: {moment(deadline)} is in the past; pass a later time"
        )
    if caller.as_json:
        show_json(answer)
        return
    remaining = duration(round(answer.get("pause_remaining", 0) / SECOND) * SECOND)
    click.echo(f"Paused {' > '.join(which)} until {moment(answer['pause_until'])} ({remaining})")


@consumer.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def resume(caller: Caller, stream: str | None, name: str | None, force: bool) -> None:
    """Resume a paused consumer."""
    which = both(caller, stream, name)
    held = caller.run(lambda session: info_of(session, *which))
    if not held.get("paused"):
        raise Error(f"{' > '.join(which)} is not paused: there is nothing to resume")
    if not ask.allowed(f"Really resume Consumer {' > '.join(which)}", force=force):
        return
    answer = caller.run(lambda session: session.request(f"CONSUMER.PAUSE.{'.'.join(which)}", {}))
    if caller.as_json:
        show_json(answer)
        return
    until = moment(format_time(time.time_ns() + held.get("pause_remaining", 0)))
    click.echo(f"Consumer {' > '.join(which)} was resumed while previously paused until {until}")


@consumer.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.argument("group", required=False)
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@client_command
def unpin(caller: Caller, stream: str | None, name: str | None, group: str | None, force: bool) -> None:
    """Unpin the client of a priority group, so that another can be pinned."""
    which = both(caller, stream, name)
    held = caller.run(lambda session: info_of(session, *which))
    if held["config"].get("priority_policy") != "pinned_client":
        raise Error(f"{' > '.join(which)} has no pinned groups: create a consumer with --pinned-groups")
    pins = {
        g["group"]: g["pinned_client_id"]
        for g in held.get("priority_groups") or ()
        if g.get("pinned_client_id")
    }
    if not pins:
        raise Error(f"no client is pinned to a group of {' > '.join(which)}: there is nothing to unpin")
    if group is None:
        group = next(iter(pins)) if len(pins) == 1 or not ask.possible() else ask.one_of("group", list(pins))
    if group not in pins:
        raise Error(f'no client is pinned to "{group}": groups with a pinned client are {", ".join(pins)}')
    if not ask.allowed(f"Really unpin client from group {' > '.join((*which, group))}", force=force):
        return
    answer = caller.run(
        lambda session: session.request(f"CONSUMER.UNPIN.{'.'.join(which)}", {"group": group})
    )
    if caller.as_json:
        show_json(answer)
    else:
        click.echo(f"Unpinned client {pins[group]} from Priority Group {' > '.join((*which, group))}")
