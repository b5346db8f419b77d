"""Client commands: flags before or after them, JSON, and the other names of commands."""

from __future__ import annotations

from typing import Any

import click
from click.testing import CliRunner

from headwater.cli.client import AliasedGroup, Caller, client_command, global_flags, group_flags


@click.group(cls=AliasedGroup)
@global_flags
def root() -> None:
    """A root."""


@click.group("stream", cls=AliasedGroup)
@group_flags
def inner() -> None:
    """A group."""


@inner.command()
@click.argument("name")
@client_command
def where(caller: Caller, name: str) -> None:
    """Print the server that the command would use."""
    found = caller.connection
    click.echo(f"{name} {found.server} {found.prefix} {found.timeout:g} {caller.as_json}")


root.add_command(inner)
root.alias("stream", "s")
inner.alias("where", "w")


def run(*arguments: str, **environ: str) -> str:
    """Run the command and return its line."""
    clean: dict[str, Any] = {"NATS_URL": None, "NATS_CONTEXT": None, "XDG_CONFIG_HOME": "nowhere", **environ}
    done = CliRunner().invoke(root, list(arguments), env=clean)
    assert done.exit_code == 0, done.output
    return done.output.strip()


DEFAULT = "X nats://127.0.0.1:4222 $JS.API 5 False"


def test_without_flags_the_defaults_are_meant() -> None:
    assert run("stream", "where", "X") == DEFAULT


def test_flags_may_stand_before_between_and_after() -> None:
    meant = "X nats://h $JS.hub.API 2 True"
    flags = ["-s", "nats://h", "--js-domain", "hub", "--timeout", "2s"]
    assert run(*flags, "--json", "stream", "where", "X") == meant
    assert run("stream", *flags, "where", "X", "--json") == meant
    assert run("stream", "where", "X", *flags, "-j") == meant


def test_the_flag_nearest_to_the_command_wins() -> None:
    assert run("--js-domain", "a", "stream", "where", "X", "--js-domain", "b").split()[2] == "$JS.b.API"


def test_flags_win_over_variables() -> None:
    assert run("stream", "where", "X", NATS_URL="nats://env").split()[1] == "nats://env"
    assert run("-s", "nats://flag", "stream", "where", "X", NATS_URL="nats://env").split()[1] == "nats://flag"


def test_commands_answer_to_their_other_names() -> None:
    assert run("s", "w", "X") == DEFAULT


def test_usage_shows_the_full_name_of_an_alias() -> None:
    done = CliRunner().invoke(root, ["s", "w"])
    assert done.exit_code == 2
    assert "root stream where" in done.output


def test_connection_flags_are_listed_once_and_not_below_every_command() -> None:
    assert "--tlscert" in CliRunner().invoke(root, ["--help"]).output
    assert "--tlscert" not in CliRunner().invoke(root, ["stream", "where", "--help"]).output
