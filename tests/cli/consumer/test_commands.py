"""The commands of `headwater consumer`: each has examples, and the names that people know."""

from __future__ import annotations

import shlex
from pathlib import Path

import click
import pytest

from headwater.cli.consumer.commands import consumer
from jetstreams import Shell


@pytest.mark.parametrize("name", sorted(consumer.commands))
def test_every_command_shows_examples_that_parse(name: str) -> None:
    epilog = consumer.commands[name].epilog or ""
    examples = [line.strip() for line in epilog.splitlines() if line.startswith("  ")]
    assert examples
    for example in examples:
        words = shlex.split(example)
        assert words[:3] == ["headwater", "consumer", name]
        with click.Context(consumer, obj={}) as outer:
            consumer.commands[name].make_context(name, words[3:], parent=outer)


REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "cli-topics.md"


def test_every_flag_of_a_consumers_config_is_in_the_reference() -> None:
    options = [p for p in consumer.commands["copy"].params if isinstance(p, click.Option) and not p.hidden]
    page = REFERENCE.read_text()
    assert [p.opts[-1] for p in options if f"`{p.opts[-1]}" not in page] == []


@pytest.mark.parametrize("group", ["consumer", "c", "con"])
@pytest.mark.parametrize("command", ["ls", "list"])
def test_other_names_lead_to_the_same_command(shell: Shell, stream: str, group: str, command: str) -> None:
    assert shell.ok(group, command, stream) == "No Consumers defined\n"
