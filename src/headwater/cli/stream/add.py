"""`stream add`, `stream edit` and `stream copy`: create a stream, change it, copy its config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.text import Text

from headwater.cli import ask
from headwater.cli.client import Caller, client_command
from headwater.cli.config_editing import DIFFERENT, edited, is_changed
from headwater.cli.graph import write
from headwater.cli.render import console, show, show_json
from headwater.cli.session import Json, Session
from headwater.cli.stream.config import check, config_flags, read_file, with_flags
from headwater.cli.stream.defaults import DEFAULTS
from headwater.cli.stream.info import info_rows
from headwater.cli.stream.pipeline_flags import ready_for
from headwater.cli.stream.questions import STREAM_NAME, ask_name, complete
from headwater.cli.stream.streams import chosen
from headwater.errors import SettingsError
from headwater.model.names import valid_stream_name

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option(
    "--config",
    "file",
    type=_FILE,
    help="JSON file with the config; 30d and 1GiB may be written for numbers. Flags take precedence.",
)
@click.option("--validate", is_flag=True, help="Only check whether the config is valid.")
@click.option("--output", type=_FILE, help="Write the config to a file instead of creating the stream.")
@click.option("--defaults", is_flag=True, help="Do not ask: use defaults for missing flags.")
@config_flags
@client_command
def add(
    caller: Caller,
    name: str | None,
    file: Path | None,
    validate: bool,
    output: Path | None,
    defaults: bool,
    **flags: Any,
) -> None:
    """Create a stream. On a terminal, you are asked for missing options."""
    config = with_flags(read_file(file) if file else {}, flags)
    asking = ask.possible() and not defaults and file is None
    config["name"] = name or config.get("name") or (ask_name() if asking else "")
    if not config["name"]:
        raise SettingsError("missing stream name: pass STREAM or --config FILE")
    if not valid_stream_name(config["name"]):
        raise SettingsError(f"{config['name']!r} is not a valid stream name: pass {STREAM_NAME}")
    if asking:
        config = complete(config)
    elif file is None:
        config = _by_default(config)
    if validate:
        check(config)
        click.echo("Configuration is valid")
    elif output is not None:
        write(output, json.dumps(config, indent=2) + "\n")
    else:
        _create(caller, config)


@click.command()
@click.argument("name", metavar="[STREAM]", required=False)
@click.option("--config", "file", type=_FILE, help="JSON file with the new config.")
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@click.option("-i", "--interactive", is_flag=True, help="Edit the config in your editor.")
@click.option("--dry-run", is_flag=True, help=f"Only show the differences; exit code {DIFFERENT} if any.")
@click.option("--no-mirror", is_flag=True, help="Stop mirroring. The stream keeps its messages.")
@click.option("--no-transform", is_flag=True, help="Stop transforming subjects.")
@click.option("--no-republish", is_flag=True, help="Stop republishing.")
@config_flags
@client_command
def edit(
    caller: Caller,
    name: str | None,
    file: Path | None,
    force: bool,
    interactive: bool,
    dry_run: bool,
    no_mirror: bool,
    no_transform: bool,
    no_republish: bool,
    **flags: Any,
) -> None:
    """Change a stream's config. The differences are shown and must be confirmed."""
    which = chosen(caller, name)
    before: Json = caller.run(lambda session: session.stream_info(which))["config"]
    after = with_flags(read_file(file) if file else before, flags)
    after["name"] = which
    gone = {"mirror": no_mirror, "subject_transform": no_transform, "republish": no_republish}
    after = {key: value for key, value in after.items() if not gone.get(key)}
    if interactive:
        after = edited(after)
    if not is_changed(caller, before, after, dry_run=dry_run):
        return
    if ask.allowed(f"Really edit Stream {which}", force=force):
        info = caller.run(lambda session: _declared(session, f"STREAM.UPDATE.{which}", after))
        _shown(caller, info, f"Stream {which} was updated")


@click.command()
@click.argument("source")
@click.argument("destination")
@config_flags
@client_command
def copy(caller: Caller, source: str, destination: str, **flags: Any) -> None:
    """Create the stream DESTINATION with the config of SOURCE, changed by the flags, without its messages."""
    like = caller.run(lambda session: session.stream_info(source))["config"]
    if flags["mirror"] and not flags["subjects"]:
        like.pop("subjects", None)
    notes = {k: v for k, v in (like.pop("metadata", None) or {}).items() if not k.startswith("_nats.")}
    config = with_flags({**like, **({"metadata": notes} if notes else {})}, flags)
    _create(caller, {**config, "name": destination})


def _by_default(config: Json) -> Json:
    """Return the config with defaults for missing keys."""
    if not any(config.get(key) for key in ("subjects", "sources", "mirror")):
        raise SettingsError("missing subjects: pass --subjects, --source or --mirror")
    return {**DEFAULTS, **config}


def _create(caller: Caller, config: Json) -> None:
    info = caller.run(lambda session: _declared(session, f"STREAM.CREATE.{config['name']}", config))
    _shown(caller, info, f"Stream {config['name']} was created")


async def _declared(session: Session, endpoint: str, config: Json) -> Json:
    """Return the answer to a declaration, which may have to wait for Spark."""
    return await session.request(endpoint, config, wait=await ready_for(session, config))


def _shown(caller: Caller, info: Json, sentence: str) -> None:
    if caller.as_json:
        show_json(info)
    else:
        show(Text(sentence), info_rows(info), to=console())
