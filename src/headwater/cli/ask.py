"""Questions to the person at the terminal, each with its default; without a terminal nothing is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from headwater.errors import SettingsError


def possible() -> bool:
    """Return whether somebody is there to answer: what is read and what is written is a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def text(question: str, default: str = "", read: Callable[[str], Any] = str) -> Any:
    """Return the answer as `read` makes a value of it; asks again until it can."""
    while True:
        answer = click.prompt(
            f"? {question}", default=default, show_default=bool(default), prompt_suffix=": ", err=True
        )
        try:
            return read(answer.strip())
        except ValueError as error:
            click.echo(f"  {error}", err=True)


def choice(question: str, choices: Sequence[str], default: str) -> str:
    """Return one of the choices; the beginning of a word is enough."""

    def read(answer: str) -> str:
        found = [each for each in choices if each.lower().startswith(answer.lower())]
        if len(found) != 1 and answer not in choices:
            raise ValueError(f"one of {', '.join(choices)}")
        return answer if answer in choices else found[0]

    return str(text(f"{question} ({'/'.join(choices)})", default, read))


def yes(question: str, default: bool = False) -> bool:
    """Return whether the answer is yes."""
    return click.confirm(f"? {question}", default=default, err=True)


def allowed(question: str, *, force: bool) -> bool:
    """Return whether something that cannot be undone may be done; without a terminal --force says so."""
    if force:
        return True
    if not possible():
        raise SettingsError("this cannot be undone and nobody is there to ask: say --force")
    if yes(question):
        return True
    click.echo("nothing was changed", err=True)
    return False


def one_of(what: str, names: Sequence[str]) -> str:
    """Return the name that the person picks of a numbered list."""
    if not names:
        raise SettingsError(f"there is no {what} to choose from")
    for place, name in enumerate(names, 1):
        click.echo(f"  {place:>3}  {name}", err=True)

    def read(answer: str) -> str:
        if answer in names:
            return answer
        if answer.isdigit() and 0 < int(answer) <= len(names):
            return names[int(answer) - 1]
        raise ValueError(f"a number from 1 to {len(names)}, or a name")

    return str(text(f"Select a {what}", read=read))
