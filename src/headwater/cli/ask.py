"""Questions to the user, each with a default. Without a terminal, nothing is asked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import click

from headwater.errors import SettingsError


def possible() -> bool:
    """Return whether standard input and standard error are a terminal, so that a user can answer."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def text(question: str, default: str = "", read: Callable[[str], Any] = str) -> Any:
    """Return the answer, converted by `read`. Ask again until it can be converted."""
    while True:
        answer = click.prompt(
            f"? {question}", default=default, show_default=bool(default), prompt_suffix=": ", err=True
        )
        try:
            return read(answer.strip())
        except ValueError as error:
            click.echo(f"  {error}", err=True)


def choice(question: str, choices: Sequence[str], default: str) -> str:
    """Return one of the choices. A prefix of a choice is accepted."""

    def read(answer: str) -> str:
        found = [each for each in choices if each.lower().startswith(answer.lower())]
        if len(found) != 1 and answer not in choices:
            raise ValueError(f"enter one of {', '.join(choices)}")
        return answer if answer in choices else found[0]

    return str(text(f"{question} ({'/'.join(choices)})", default, read))


def yes(question: str, default: bool = False) -> bool:
    """Return whether the answer is yes."""
    return click.confirm(f"? {question}", default=default, err=True)


def allowed(question: str, *, force: bool) -> bool:
    """Return whether an action that cannot be undone is confirmed, by the user or by --force."""
    if force:
        return True
    if not possible():
        raise SettingsError("this cannot be undone and there is no terminal to confirm it: pass --force")
    if yes(question):
        return True
    click.echo("nothing was changed", err=True)
    return False


def one_of(what: str, names: Sequence[str]) -> str:
    """Return the name that the user picks from a numbered list."""
    if not names:
        raise SettingsError(f"there is no {what} to select")
    for place, name in enumerate(names, 1):
        click.echo(f"  {place:>3}  {name}", err=True)

    def read(answer: str) -> str:
        if answer in names:
            return answer
        if answer.isdigit() and 0 < int(answer) <= len(names):
            return names[int(answer) - 1]
        raise ValueError(f"enter a number from 1 to {len(names)}, or a name")

    return str(text(f"Select a {what}", read=read))
