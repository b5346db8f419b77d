"""Conditions over a stream's or consumer's info, such as `state.messages > 10 and config.sealed`.

The nats command evaluates them with expr-lang, a Go library. Here simpleeval evaluates them. Its syntax is
Python's, so `&&`, `||`, `!`, `true`, `false` and `nil` of expr-lang are translated first.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping
from typing import Any

import simpleeval

from headwater.errors import SettingsError

_STRINGS = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_WORDS = (
    (re.compile(r"&&"), " and "),
    (re.compile(r"\|\|"), " or "),
    (re.compile(r"!(?!=)"), " not "),
    (re.compile(r"\btrue\b"), "True"),
    (re.compile(r"\bfalse\b"), "False"),
    (re.compile(r"\bnil\b"), "None"),
)
_OPERATORS = {
    **simpleeval.DEFAULT_OPERATORS,
    ast.In: lambda item, items: operator.contains(items or (), item),
    ast.NotIn: lambda item, items: not operator.contains(items or (), item),
}


class Expression:
    """A condition that is parsed once and evaluated for many streams or consumers."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(_python(text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            raise SettingsError(
                f"--expression {text!r} is not valid: write a condition such as state.messages > 10"
            ) from None

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Return whether the condition is true of these values."""
        known = {name: _members(value) for name, value in names.items()}
        evaluator = simpleeval.EvalWithCompoundTypes(operators=_OPERATORS, functions={}, names=known)
        try:
            value = evaluator.eval(self.text, previously_parsed=self._tree)
        except (simpleeval.InvalidExpression, ArithmeticError, LookupError, TypeError) as error:
            raise SettingsError(f"--expression {self.text!r} cannot be evaluated: {error}") from None
        if not isinstance(value, bool):
            raise SettingsError(f"--expression {self.text!r} is {value!r}: it must be true or false")
        return value


class _Members(dict[str, Any]):
    """A JSON object whose members are attributes; a member that the API left out is None."""

    def __getattr__(self, name: str) -> Any:
        return self.get(name)

    def __missing__(self, name: str) -> None:
        return None


def _members(value: Any) -> Any:
    """Return a JSON value in which every object is a `_Members`."""
    if isinstance(value, dict):
        return _Members({key: _members(inner) for key, inner in value.items()})
    return [_members(inner) for inner in value] if isinstance(value, list) else value


def _python(text: str) -> str:
    """Return the condition in Python's syntax; string literals stay as they are."""
    parts = _STRINGS.split(text)
    for place in range(0, len(parts), 2):
        for word, meant in _WORDS:
            parts[place] = word.sub(meant, parts[place])
    return "".join(parts)
