"""Configs of streams and consumers on the command line: read from a file, edited, compared."""

from __future__ import annotations

import difflib
import json
from pathlib import Path

import click
import msgspec
from rich.text import Text

from headwater.cli.client import Caller
from headwater.cli.config_units import without_units
from headwater.cli.render import show
from headwater.cli.session import Json
from headwater.errors import SettingsError

DIFFERENT = 1
"""The exit code of --dry-run if there are differences.

The nats command does the same for streams and consumers, and prints nothing if there are none (natscli,
cli/stream_command.go and cli/consumer_command.go: `editAction` calls `os.Exit(1)`).
"""


def read_config(path: Path, kind: str) -> Json:
    """Return the config of a stream or consumer in a JSON file, which may also be the output of `info`."""
    try:
        held = msgspec.json.decode(path.read_bytes(), type=Json)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except msgspec.DecodeError as error:
        raise SettingsError(f"{path} is not a {kind} config: {error}") from None
    inner = held.get("config")
    return without_units(inner if isinstance(inner, dict) else held)


def edited(config: Json) -> Json:
    """Return the config as changed in the user's editor."""
    text = click.edit(json.dumps(config, indent=2), extension=".json")
    if text is None:
        raise SettingsError("the editor did not save: nothing was changed")
    try:
        changed: Json = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"the edited text is not JSON: {error}; nothing was changed") from None
    return without_units(changed)


def is_changed(caller: Caller, before: Json, after: Json, *, dry_run: bool) -> bool:
    """Show the differences of two configs and return whether there are any; a dry run ends here."""
    changes = differences(before, after)
    if not changes:
        if not dry_run:
            click.echo("No difference in configuration")
        return False
    if not caller.as_json:
        show(changes)
    if dry_run:
        raise SystemExit(DIFFERENT)
    return True


def differences(before: Json, after: Json) -> Text:
    """Return the removed and added lines of the config."""
    old, new = (json.dumps(each, indent=2, sort_keys=True).splitlines() for each in (before, after))
    lines = [
        line for line in difflib.unified_diff(old, new, lineterm="", n=0) if line[:2] not in ("--", "++")
    ]
    styles = {"-": "red", "+": "green"}
    kept = [Text(line, styles[line[0]]) for line in lines if line[0] in styles]
    if not kept:
        return Text("")
    return Text("\n").join([Text("Differences (-old +new):"), *kept])
