"""The reference page of the command line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from headwater.cli.connection import FLAGS
from headwater.cli.docs.commands_page import commands_page
from headwater.cli.main import headwater
from headwater.cli.options import GroupedCommand

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"


def commands(group: click.Group, path: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield every command by its full name."""
    for name, command in group.commands.items():
        yield f"{path}{name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")


def test_the_page_is_the_one_that_the_commands_write() -> None:
    assert PAGE.read_text() == commands_page(), "run `make docs-pages`"


def test_every_command_has_its_heading() -> None:
    headings = [line.lstrip("# ") for line in commands_page().splitlines() if line.startswith("###")]
    assert headings == sorted(headings, key=lambda name: name.split())
    assert set(headings) == {path for path, _ in commands(headwater)}


def test_every_connection_flag_has_its_row() -> None:
    page = commands_page()
    for flag in FLAGS.values():
        assert f"`{flag.names[0]}`" in page
        assert f"| {flag.help} |" in page


def section(page: str, path: str) -> str:
    """Return what the page says of one command."""
    return re.split(r"^#", page.split(f"# {path}\n", 1)[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_every_flag_is_named_with_a_meaning_where_its_command_is() -> None:
    page = commands_page()
    for path, command in commands(headwater):
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden and option.name != "as_json":
                settings = isinstance(command, GroupedCommand)
                assert settings or option.opts[-1] in section(page, path), (path, option.opts)
                assert option.help, (path, option.opts)


def test_help_that_is_laid_out_by_hand_stays_so() -> None:
    assert (
        "```\n--expression can use every field of `stream info --json`:\n  headwater stream find"
        in commands_page()
    )
