"""Prompts: defaults, invalid answers that are asked again, and no terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import pytest
from click.testing import CliRunner

from headwater.cli import ask
from headwater.errors import SettingsError


def answered(question: Callable[[], Any], typed: str) -> tuple[Any, str]:
    """Return the result of a question for this typed answer, and the output."""
    given: list[Any] = []

    @click.command()
    def command() -> None:
        given.append(question())

    done = CliRunner().invoke(command, input=typed)
    assert done.exception is None, done.exception
    return given[0], done.stderr


def test_enter_takes_the_default() -> None:
    value, seen = answered(lambda: ask.text("Stream Messages Limit", "-1", int), "\n")
    assert value == -1
    assert seen.startswith("? Stream Messages Limit [-1]: ")


def test_an_answer_without_sense_is_asked_for_again() -> None:
    def read(text: str) -> int:
        if not text.isdigit():
            raise ValueError("a number")
        return int(text)

    value, seen = answered(lambda: ask.text("How many", read=read), "many\n7\n")
    assert value == 7
    assert "  a number\n" in seen


@pytest.mark.parametrize(("typed", "chosen"), [("\n", "file"), ("m\n", "memory"), ("x\nfile\n", "file")])
def test_the_beginning_of_a_choice_is_enough(typed: str, chosen: str) -> None:
    assert answered(lambda: ask.choice("Storage backend", ("file", "memory"), "file"), typed)[0] == chosen


@pytest.mark.parametrize(
    ("typed", "default", "meant"), [("\n", True, True), ("y\n", False, True), ("n\n", True, False)]
)
def test_yes_and_no_are_understood(typed: str, default: bool, meant: bool) -> None:
    assert answered(lambda: ask.yes("Really", default), typed)[0] is meant


@pytest.mark.parametrize("typed", ["2\n", "RETURNS\n", "9\n2\n"])
def test_one_of_a_list_is_picked_by_number_or_name(typed: str) -> None:
    assert answered(lambda: ask.one_of("stream", ["ORDERS", "RETURNS"]), typed)[0] == "RETURNS"


def test_of_an_empty_list_nothing_can_be_picked() -> None:
    with pytest.raises(SettingsError, match="no stream to select"):
        ask.one_of("stream", [])


def test_without_a_terminal_only_force_allows_what_cannot_be_undone() -> None:
    assert answered(lambda: ask.allowed("Really", force=True), "")[0] is True
    with pytest.raises(AssertionError, match="pass --force"):
        answered(lambda: ask.allowed("Really", force=False), "y\n")


def test_at_a_terminal_the_person_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ask, "possible", lambda: True)
    assert answered(lambda: ask.allowed("Really", force=False), "y\n")[0] is True
    refused, seen = answered(lambda: ask.allowed("Really", force=False), "n\n")
    assert refused is False
    assert "nothing was changed" in seen


def test_nothing_is_asked_in_a_pipe() -> None:
    assert answered(ask.possible, "")[0] is False
