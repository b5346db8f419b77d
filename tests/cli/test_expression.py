"""Conditions over the API's answer about a stream."""

from __future__ import annotations

import pytest

from headwater.cli.expression import Expression
from headwater.errors import SettingsError
from stream_infos import SALES

NAMES = {"config": SALES["config"], "state": SALES["state"], "info": SALES}


@pytest.mark.parametrize(
    "text",
    [
        "state.messages > 10",
        "state.messages == 1234567 && config.storage == 'file'",
        "1 < state.consumer_count <= 3",
        '"sales.>" in config.subjects',
        "'x.>' not in config.subjects",
        'info.cluster.name in ["c2", "c3"]',
        "!(config.storage == 'memory')",
        "not config.deny_purge || false",
        "config.deny_delete == true",
        "config.nothing == nil",
        "'a' not in config.nothing",
        "config.sources[1].name == 'tickets-2'",
        "config['name'] == 'sales'",
        "state.last_seq - state.first_seq + 1 == state.messages",
        "state.bytes / 2 > -1",
        "config.description != 'a && b'",
    ],
)
def test_a_condition_that_is_true_holds(text: str) -> None:
    assert Expression(text).holds(NAMES)


@pytest.mark.parametrize("text", ["state.messages < 10", "false", "config.storage == 'memory' or !true"])
def test_a_condition_that_is_false_does_not_hold(text: str) -> None:
    assert not Expression(text).holds(NAMES)


@pytest.mark.parametrize("text", ["state.messages >", "", "import os", "1 <> 2"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="is not valid"):
        Expression(text)


@pytest.mark.parametrize(
    "text",
    [
        "open('x')",
        "().__class__",
        "unknown == 1",
        "(lambda: true)()",
        "config.sources[9] == nil",
        "1 / 0 == 1",
    ],
)
def test_what_cannot_be_evaluated_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="cannot be evaluated"):
        Expression(text).holds(NAMES)


@pytest.mark.parametrize("text", ["state.messages", "config.name + ''"])
def test_a_condition_must_be_true_or_false(text: str) -> None:
    with pytest.raises(SettingsError, match="must be true or false"):
        Expression(text).holds(NAMES)


def test_values_that_cannot_be_compared_are_refused() -> None:
    with pytest.raises(SettingsError, match="cannot be evaluated"):
        Expression("config.name > 3").holds(NAMES)
