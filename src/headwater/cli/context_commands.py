"""`headwater context`: named connections, in files that the `nats` command uses as well."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from rich.text import Text

from headwater.cli import ask
from headwater.cli.client import AliasedGroup, Caller, json_flag
from headwater.cli.connection import FLAGS, connection_flags, taken_from
from headwater.cli.contexts import FILE_FIELDS, ContextFolder, SavedContext
from headwater.cli.render import Cell, Column, LabelledRows, Sheet, show, show_json
from headwater.errors import Error, SettingsError

Command = TypeVar("Command", bound=Callable[..., Any])

HIDDEN = "*********"
_LABELS = {
    "description": "Description",
    "url": "Server URLs",
    "socks_proxy": "SOCKS5 Proxy",
    "user": "Username",
    "password": "Password",
    "token": "Token",
    "creds": "Credentials",
    "nkey": "NKey",
    "user_jwt": "User JWT",
    "user_seed": "User Seed",
    "cert": "Certificate",
    "key": "Key",
    "ca": "CA",
    "tls_first": "TLS First",
    "nsc": "NSC Lookup",
    "jetstream_api_prefix": "JS API Prefix",
    "jetstream_event_prefix": "JS Event Prefix",
    "jetstream_domain": "JS Domain",
    "inbox_prefix": "Inbox Prefix",
    "color_scheme": "Color Scheme",
}
_SECRETS = ("password", "token", "user_jwt", "user_seed")
_EPILOG = """\b
Examples:
  headwater context add hub --server nats://hub:4222 --creds ~/hub.creds --select
  headwater context add lake --context hub --js-domain lake
      like hub, but for the JetStream of domain "lake"
  headwater context ls
  headwater stream ls --context lake
  NATS_CONTEXT=lake headwater stream ls

\b
The files are in $XDG_CONFIG_HOME/nats/context or ~/.config/nats/context. The nats command reads and writes
the same files. Flags take precedence over variables, and variables over the context.
"""


@click.group(cls=AliasedGroup, epilog=_EPILOG)
def context() -> None:
    """Manage contexts: named sets of servers and credentials."""


def saving_flags(command: Command) -> Command:
    """Give a command the flags that a context stores."""
    command = click.option("--description", default="", help="Description of the context.")(command)
    command = click.option("--select", is_flag=True, help="Select the context.")(command)
    command = click.option(
        "--nsc", default="", metavar="URL", help="nsc lookup URL; stored for the nats command."
    )(command)
    return connection_flags(command, hidden=False)


@context.command()
@click.argument("name")
@saving_flags
@json_flag
def add(name: str, description: str, select: bool, nsc: str, as_json: bool, **flags: Any) -> None:
    """Create a context, or change fields of an existing one."""
    folder = ContextFolder.of_user()
    given = _given(flags)
    like = name if folder.known(name) else str(given.get("context") or "")
    _save(folder, name, folder.load(like) if like else SavedContext(), description, nsc, given)
    _report(folder, name, select, as_json)


@context.command()
@click.argument("source")
@click.argument("name")
@saving_flags
@json_flag
def copy(
    source: str, name: str, description: str, select: bool, nsc: str, as_json: bool, **flags: Any
) -> None:
    """Create the context NAME as a copy of SOURCE, changed by the flags."""
    folder = ContextFolder.of_user()
    if folder.known(name):
        raise Error(f'the context "{name}" exists already: remove it first, or choose another name')
    _save(folder, name, folder.load(source), description, nsc, _given(flags, variables=False))
    _report(folder, name, select, as_json)


@context.command()
@click.argument("name")
def edit(name: str) -> None:
    """Change a context in your editor."""
    folder = ContextFolder.of_user()
    before = folder.load(name)
    text = json.dumps(msgspec.structs.asdict(before), indent=2)
    changed = click.edit(text + "\n", extension=".json")
    if changed is None:
        click.echo("nothing was changed", err=True)
        return
    try:
        folder.save(name, msgspec.json.decode(changed, type=SavedContext))
    except msgspec.DecodeError as error:
        raise Error(f"the edited text is not a context: {error}; nothing was changed") from None
    show(context_rows(folder, name))


@context.command()
@click.option("--names", is_flag=True, help="Show only names.")
@json_flag
def ls(names: bool, as_json: bool) -> None:
    """List contexts. A star marks the selected one."""
    folder = ContextFolder.of_user()
    found = folder.names()
    if as_json or _json_asked():
        show_json(found if names else [_shown_json(name, folder.load(name)) for name in found])
    elif names:
        click.echo("".join(f"{name}\n" for name in found), nl=False)
    elif found:
        show(contexts_sheet(folder))
    else:
        click.echo("No known contexts")


@context.command()
@click.argument("name", required=False)
@click.option("--connect", is_flag=True, help="Also connect to the server.")
@json_flag
def info(name: str | None, connect: bool, as_json: bool) -> None:
    """Show a context, or the selected one."""
    folder = ContextFolder.of_user()
    which = name or os.environ.get("NATS_CONTEXT") or folder.selected
    if not which:
        raise SettingsError("no context is selected: pass NAME; `headwater context ls` lists them")
    if as_json or _json_asked():
        show_json(_shown_json(which, folder.load(which)))
    else:
        show(context_rows(folder, which))
    if connect:
        Caller({"context": which}, False).run(_nothing)
        click.echo("Connected")


@context.command()
@click.argument("name", required=False)
def select(name: str | None) -> None:
    """Select the context to use without --context."""
    folder = ContextFolder.of_user()
    if name is None and not ask.possible():
        raise SettingsError("missing context name: pass NAME; `headwater context ls` lists them")
    which = name or ask.one_of("context", folder.names())
    folder.select(which)
    show(context_rows(folder, which))


@context.command()
def unselect() -> None:
    """Select no context."""
    folder = ContextFolder.of_user()
    before = folder.selected
    folder.unselect()
    click.echo(f'Unselected the "{before}" context' if before else "No context currently selected")


@context.command()
def previous() -> None:
    """Select the previously selected context."""
    folder = ContextFolder.of_user()
    if not folder.previous:
        raise Error("no context was selected before: `headwater context ls` lists them")
    folder.select(folder.previous)
    show(context_rows(folder, folder.selected))


@context.command()
@click.argument("name")
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
def rm(name: str, force: bool) -> None:
    """Remove a context."""
    folder = ContextFolder.of_user()
    if not folder.known(name):
        raise Error(f'there is no context "{name}": `headwater context ls` lists them')
    if folder.selected == name and not force:
        raise Error(
            f'"{name}" is selected: select another, run `headwater context unselect`, or pass --force'
        )
    if ask.allowed(f'Really delete context "{name}"', force=force):
        folder.delete(name)


@context.command()
@click.argument("name", required=False)
@click.option("--connect", is_flag=True, help="Also connect to the server.")
def validate(name: str | None, connect: bool) -> None:
    """Check one context or all: its files exist and are valid, and with --connect it connects."""
    folder = ContextFolder.of_user()
    problems = {each: _problem(folder, each, connect) for each in ([name] if name else folder.names())}
    for each, trouble in problems.items():
        said = Text(trouble, "bold red") if trouble else Text("OK", "green")
        show(Text.assemble(f"{each}: ", said))
    if wrong := [each for each, trouble in problems.items() if trouble]:
        raise Error(f"{len(wrong)} of {len(problems)} contexts are invalid: {', '.join(wrong)}")


def _problem(folder: ContextFolder, name: str, connect: bool) -> str:
    """Return the problem of a context, "" if there is none."""
    try:
        held = folder.load(name)
        missing = [field for field in FILE_FIELDS if getattr(held, field)
                   and not Path(held.path_of(field)).is_file()]  # fmt: skip
        if missing:
            return f"{_LABELS[missing[0]]} {getattr(held, missing[0])} does not exist"
        if connect:
            Caller({"context": name}, False).run(_nothing)
    except Error as error:
        return str(error)
    return ""


_EXAMPLES = {
    "add": (
        "headwater context add hub --server nats://hub:4222 --creds ~/hub.creds --select",
        "headwater context add lake --context hub --js-domain lake",
    ),
    "copy": ("headwater context copy hub spoke --server nats://spoke:4222",),
    "edit": ("EDITOR=vi headwater context edit hub",),
    "ls": ("headwater context ls", "headwater context ls --names"),
    "info": ("headwater context info", "headwater context info hub --connect"),
    "select": ("headwater context select hub",),
    "unselect": ("headwater context unselect",),
    "previous": ("headwater context previous",),
    "rm": ("headwater context rm spoke --force",),
    "validate": ("headwater context validate", "headwater context validate hub --connect"),
}
for _name, _lines in _EXAMPLES.items():
    context.commands[_name].epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in _lines)
for _name, _others in {
    "add": ("create", "save"),
    "copy": ("cp",),
    "edit": ("vi",),
    "ls": ("list", "l"),
    "info": ("show", "view", "v"),
    "select": ("switch", "set"),
    "previous": ("-",),
    "rm": ("remove", "delete"),
}.items():
    context.alias(_name, *_others)


def contexts_sheet(folder: ContextFolder) -> Sheet:
    """Return the table of contexts."""
    columns = [Column("Name"), Column("Description", wraps=True), Column("Server", wraps=True)]
    rows: list[tuple[Cell, ...]] = []
    for name in folder.names():
        star = "*" if name == folder.selected else ""
        try:
            held = folder.load(name)
        except Error as error:
            rows.append((f"{name}{star}", Text(str(error), "red"), ""))
            continue
        rows.append((f"{name}{star}", held.description, held.url))
    return Sheet("Known Contexts", columns, rows)


def context_rows(folder: ContextFolder, name: str) -> LabelledRows:
    """Return a context's fields. Secrets are hidden, and missing files are marked."""
    held = folder.load(name)
    rows = LabelledRows(f'NATS Configuration Context "{name}"')
    lines = rows.section("")
    for field, label in _LABELS.items():
        value = getattr(held, field)
        if not value:
            continue
        if field in _SECRETS:
            lines.append((label, HIDDEN))
        elif field in FILE_FIELDS:
            there = Path(held.path_of(field)).is_file()
            said = Text("OK", "green") if there else Text("ERROR: not found", "bold red")
            lines.append((label, Text.assemble(value, " (", said, ")")))
        else:
            lines.append((label, "true" if value is True else str(value)))
    lines.append(("Path", str(folder.path(name))))
    return rows


def _given(flags: dict[str, Any], *, variables: bool = True) -> Mapping[str, Any]:
    """Return the connection flags of this command, then those of outer commands and the environment."""
    outer = click.get_current_context().find_root().obj or {}
    return {**(outer if variables else {}), **taken_from(flags)}


def _json_asked() -> bool:
    return bool((click.get_current_context().find_root().obj or {}).get("as_json"))


def _save(
    folder: ContextFolder, name: str, like: SavedContext, description: str, nsc: str, given: Mapping[str, Any]
) -> None:
    said = {flag.key: given[field] for field, flag in FLAGS.items() if flag.key and field in given}
    # As in the nats command, a user without a password is a token.
    if said.get("user") and not said.get("password"):
        said["token"] = said.pop("user")
    folder.save(name, like.updated({**said, "description": description, "nsc": nsc}))


def _report(folder: ContextFolder, name: str, select: bool, as_json: bool) -> None:
    if select:
        folder.select(name)
    if as_json or _json_asked():
        show_json(_shown_json(name, folder.load(name)))
    else:
        show(context_rows(folder, name))


def _shown_json(name: str, held: SavedContext) -> dict[str, Any]:
    return {"name": name, **msgspec.structs.asdict(held)}


async def _nothing(session: object) -> None:
    """Do nothing: the connection itself is the check."""
