"""Tests of model.condition; tests/cli/test_expression.py has the syntax."""

from __future__ import annotations

import pytest

from headwater.model.condition import Condition, ConditionError

VALUES = {"json": {"amount": 12, "tags": ["new", "eu"], "who": {"name": "Ada"}}, "text": "Hello"}


@pytest.mark.parametrize(
    "text",
    [
        "json.amount > 10",
        "json.amount > 10 && 'eu' in json.tags",
        "json.who.name == 'Ada' and not json.missing",
        "json['amount'] == 12 || false",
        "length(text) == 5",
        "json.tags[0] == 'new'",
    ],
)
def test_a_simple_condition_is_admitted_and_holds(text: str) -> None:
    condition = Condition(text, {"length": len})
    condition.require_simple(["json", "text"])
    assert condition.holds(VALUES)


@pytest.mark.parametrize(
    "text",
    [
        "9**9**9 > 1",
        "'%99999999999d' % 1 == ''",
        "[x for x in text] == []",
        "text.replace('', text) == ''",
        "(lambda: 1)() == 1",
        "unknown == 1",
        "{'a': 1} == json",
        "f'{text}' == ''",
        "(text if text else text) == ''",
        "1 << 100 > 1",
    ],
)
def test_what_can_take_long_or_is_unknown_is_refused(text: str) -> None:
    with pytest.raises(ConditionError):
        Condition(text, {"length": len}).require_simple(["json", "text"])


def test_only_the_given_functions_can_be_called() -> None:
    with pytest.raises(ConditionError, match="unknown name open"):
        Condition("open('x') == 1").require_simple(["text"])
    with pytest.raises(ConditionError, match="cannot be evaluated"):
        Condition("open('x') == 1").holds(VALUES)


@pytest.mark.parametrize("text", ["(" * 300 + ")" * 300, "a" * 3 + " >", ""])
def test_what_cannot_be_parsed_is_refused(text: str) -> None:
    with pytest.raises(ConditionError, match="is not valid"):
        Condition(text)
