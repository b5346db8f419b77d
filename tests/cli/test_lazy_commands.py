"""Tests of cli.lazy_commands."""

from __future__ import annotations

import subprocess
import sys

import click
import pytest

from headwater.cli.lazy_commands import LazyCommands


def commands() -> tuple[LazyCommands, list[str]]:
    loaded: list[str] = []
    places = {"serve": "headwater.cli.serve:serve", "pub": "headwater.cli.publish:pub"}
    return LazyCommands(places, lambda name, command: loaded.append(name)), loaded


def test_a_command_is_loaded_once_when_it_is_used() -> None:
    lazy, loaded = commands()
    assert sorted(lazy) == ["pub", "serve"]
    assert "serve" in lazy
    assert len(lazy) == 2
    assert loaded == []
    assert lazy["serve"].name == "serve"
    assert lazy["serve"] is lazy.get("serve")
    assert loaded == ["serve"]
    assert lazy.get("none") is None


def test_commands_can_be_set_and_removed() -> None:
    lazy, _ = commands()
    own = click.Command("own")
    lazy["own"] = own
    assert lazy["own"] is own
    del lazy["own"]
    del lazy["pub"]
    assert sorted(lazy) == ["serve"]
    with pytest.raises(KeyError):
        del lazy["pub"]


def test_an_engine_does_not_load_the_commands_of_clients() -> None:
    program = (
        "import sys; from headwater.cli.main import headwater; headwater.commands['serve'];"
        "print({'rich', 'nats', 'headwater.cli.stream.commands', 'headwater.cli.check'} & set(sys.modules))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "set()\n"
