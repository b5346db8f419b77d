"""`consumer add`, `consumer edit` and `consumer copy`: create a consumer, change it, copy its config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from headwater.cli import ask
from headwater.cli.client import Caller, client_command
from headwater.cli.config_editing import DIFFERENT, edited, is_changed
from headwater.cli.consumer.config import (
    check,
    config_flags,
    read_file,
    unreserved,
    with_defaults,
    with_flags,
)
from headwater.cli.consumer.consumers import both, info_of
from headwater.cli.consumer.info import info_rows
from headwater.cli.consumer.questions import ask_name, complete
from headwater.cli.graph import write
from headwater.cli.render import show, show_json
from headwater.cli.session import Json, Session
from headwater.cli.stream.streams import chosen
from headwater.errors import SettingsError

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option(
    "--config",
    "file",
    type=_FILE,
    help="JSON file with the config; 30d and 1GiB may be written for numbers. Flags take precedence.",
)
@click.option("--validate", is_flag=True, help="Only check whether the config is valid.")
@click.option("--output", type=_FILE, help="Write the config to a file instead of creating the consumer.")
@click.option("--defaults", is_flag=True, help="Do not ask: use defaults for missing flags.")
@config_flags
@client_command
def add(
    caller: Caller, stream: str | None, name: str | None, file: Path | None, validate: bool,
    output: Path | None, defaults: bool, **flags: Any,
) -> None:  # fmt: skip
    """Create a consumer. On a terminal, you are asked for missing options."""
    apart = validate or output is not None
    which = stream if apart else chosen(caller, stream)
    config = with_flags(read_file(file) if file else {}, flags)
    asking = ask.possible() and not defaults and file is None
    config = _named(config, name or "", ephemeral=flags["ephemeral"], asking=asking)
    if asking:
        config = complete(config, pull=flags["pull"])
    config = with_defaults({key: value for key, value in config.items() if value != ""})
    _possible(config)
    if apart:
        check(config)
    if validate:
        click.echo("Configuration is valid")
    elif output is not None:
        write(output, json.dumps(config, indent=2) + "\n")
    else:
        _shown(caller, caller.run(lambda session: create(session, str(which), config, "create")))


@click.command()
@click.argument("stream", required=False)
@click.argument("name", metavar="[CONSUMER]", required=False)
@click.option("--config", "file", type=_FILE, help="JSON file with the new config.")
@click.option("-f", "--force", is_flag=True, help="Do not ask for confirmation.")
@click.option("-i", "--interactive", is_flag=True, help="Edit the config in your editor.")
@click.option("--dry-run", is_flag=True, help=f"Only show the differences; exit code {DIFFERENT} if any.")
@lambda command: config_flags(command, new=False)
@client_command
def edit(
    caller: Caller, stream: str | None, name: str | None, file: Path | None, force: bool, interactive: bool,
    dry_run: bool, **flags: Any,
) -> None:  # fmt: skip
    """Change a consumer's config. The differences are shown and must be confirmed."""
    which = both(caller, stream, name)
    before = unreserved(caller.run(lambda session: info_of(session, *which))["config"])
    kept: Json = {key: before[key] for key in ("name", "durable_name") if key in before}
    after: Json = {**with_flags(read_file(file) if file else before, flags), **kept}
    if interactive:
        after = edited(after)
    if not is_changed(caller, before, after, dry_run=dry_run):
        return
    if ask.allowed(f"Really edit Consumer {' > '.join(which)}", force=force):
        _shown(caller, caller.run(lambda session: create(session, which[0], after, "update")))


@click.command()
@click.argument("stream")
@click.argument("source")
@click.argument("destination")
@config_flags
@client_command
def copy(caller: Caller, stream: str, source: str, destination: str, **flags: Any) -> None:
    """Create the consumer DESTINATION with the config of SOURCE, changed by the flags, but not its state."""
    like = unreserved(caller.run(lambda session: info_of(session, stream, source))["config"])
    # The deliver subject and a pause belong to one consumer and are not copied.
    for key in ("name", "durable_name", "pause_until", "deliver_subject", "deliver_group"):
        like.pop(key, None)
    pulls = not flags["deliver_subject"]
    for key in ("flow_control", "idle_heartbeat", "rate_limit_bps") if pulls else ("max_waiting",):
        like.pop(key, None)
    config = _named(with_flags(like, flags), destination, ephemeral=flags["ephemeral"], asking=False)
    _possible(config)
    _shown(caller, caller.run(lambda session: create(session, stream, config, "create")))


async def create(session: Session, stream: str, config: Json, action: str) -> Json:
    """Create or update a consumer and return its info."""
    name = config.get("name") or config.get("durable_name") or ""
    endpoint = f"CONSUMER.CREATE.{stream}"
    if name:
        single = config.get("filter_subject")
        endpoint += f".{name}.{single}" if single else f".{name}"
    return await session.request(endpoint, {"stream_name": stream, "config": config, "action": action})


def _named(config: Json, name: str, *, ephemeral: bool, asking: bool) -> Json:
    """Return the config with its name; an ephemeral consumer needs none."""
    held = name or str(config.get("durable_name") or config.get("name") or "")
    if not held and not ephemeral:
        if not asking:
            raise SettingsError("missing consumer name: pass CONSUMER or --ephemeral")
        held = ask_name()
    rest = {key: value for key, value in config.items() if key not in ("name", "durable_name")}
    if not held:
        return rest
    return {"name": held, **rest} if ephemeral else {"name": held, "durable_name": held, **rest}


def _possible(config: Json) -> None:
    """Refuse options that only push consumers have, with a better message than the server's."""
    if config.get("deliver_subject"):
        return
    for key, flag in (
        ("rate_limit_bps", "--bps"), ("idle_heartbeat", "--heartbeat"), ("flow_control", "--flow-control"),
        ("deliver_group", "--deliver-group"),
    ):  # fmt: skip
        if config.get(key):
            raise SettingsError(f"{flag} needs a push consumer: pass --target as well")


def _shown(caller: Caller, info: Json) -> None:
    if caller.as_json:
        show_json(info)
    else:
        show(info_rows(info))
