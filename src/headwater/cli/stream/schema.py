"""`stream schema`: the schema of a stream's payload, kept in the stream's metadata."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from headwater.cli.client import AliasedGroup, Caller, client_command, group_flags
from headwater.cli.render import Column, Sheet, show, show_json
from headwater.cli.session import Json
from headwater.errors import SettingsError
from headwater.model.payload_schema import KEY, PayloadType, schema_in, stored, type_of

_EPILOG = f"""\b
The schema is the value of the metadata key {KEY}, so every client can read and set it. `headwater sql` and
readers use it: column data then has typed fields, and _corrupt holds payload that does not match.

\b
Examples:
  headwater stream schema set ORDERS --json-schema order.json
  headwater stream schema show ORDERS
  headwater sql "SELECT data.region, sum(data.amount) FROM ORDERS GROUP BY 1"
"""


@click.group(cls=AliasedGroup, epilog=_EPILOG)
@group_flags
def schema() -> None:
    """Register the schema of a stream's payload."""


@schema.command("set")
@click.argument("stream")
@click.option(
    "--json-schema",
    "file",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON Schema of the messages, as a file.",
)
@client_command
def set_schema(caller: Caller, stream: str, file: Path) -> None:
    """Set the schema of a stream. Messages are not checked: readers use it."""
    try:
        given = json.loads(file.read_bytes())
    except ValueError as error:
        raise SettingsError(f"{file} is not JSON: {error}") from None
    info = _updated(caller, stream, stored(given))
    _show(caller, info)


@schema.command("show")
@click.argument("stream")
@client_command
def show_schema(caller: Caller, stream: str) -> None:
    """Show the schema of a stream; --json prints the JSON Schema."""
    _show(caller, caller.run(lambda session: session.stream_info(stream)))


@schema.command("rm")
@click.argument("stream")
@client_command
def remove_schema(caller: Caller, stream: str) -> None:
    """Remove the schema of a stream."""
    _updated(caller, stream, None)
    click.echo(f"Stream {stream} has no schema")


schema.alias("show", "info")
schema.alias("rm", "del", "delete")


def _updated(caller: Caller, stream: str, text: str | None) -> Json:
    config = dict(caller.run(lambda session: session.stream_info(stream))["config"])
    notes = {key: value for key, value in (config.get("metadata") or {}).items() if key != KEY}
    config["metadata"] = notes if text is None else {**notes, KEY: text}
    updated: Json = caller.run(lambda session: session.request(f"STREAM.UPDATE.{stream}", config))
    return updated


def _show(caller: Caller, info: Json) -> None:
    name = info["config"]["name"]
    found = schema_in(info["config"].get("metadata"))
    if found is None:
        raise SettingsError(f"stream {name} has no schema: set one with `headwater stream schema set {name}`")
    if caller.as_json:
        show_json(found)
        return
    rows = [[field, kind] for field, kind in _fields("data", type_of(found))]
    show(Sheet(f"Schema of {name}", (Column("Column", wraps=True), Column("Type", wraps=True)), rows))


def _fields(prefix: str, kind: PayloadType) -> list[tuple[str, Any]]:
    """Return the names and types of all fields, those of objects below them."""
    found: list[tuple[str, Any]] = []
    for name, each in kind.fields:
        path = f"{prefix}.{name}"
        found += _fields(path, each) if each.kind == "object" else [(path, each.spark())]
    return found
