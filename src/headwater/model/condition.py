"""Conditions over JSON values, such as `state.messages > 10 and config.sealed`.

The nats command evaluates them with expr-lang, a Go library. Here simpleeval evaluates them. Its syntax is
Python's, so `&&`, `||`, `!`, `true`, `false` and `nil` of expr-lang are translated first.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import simpleeval

from headwater.errors import Error

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
_SIMPLE = (
    ast.BoolOp,
    ast.Compare,
    ast.UnaryOp,
    ast.BinOp,
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.List,
    ast.Call,
    ast.boolop,
    ast.cmpop,
    ast.unaryop,
    ast.Add,
    ast.Sub,
    ast.Mult,
    ast.Div,
    ast.expr_context,
)
"""What a simple condition may consist of: nothing that takes long or much memory for a short text."""


class ConditionError(Error):
    """A condition is malformed, or cannot be evaluated for some values."""


class Condition:
    """A condition that is parsed once and evaluated for many values."""

    def __init__(self, text: str, functions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.text = text
        self._functions = dict(functions or {})
        """By name, what the condition may call."""
        try:
            self._tree = ast.parse(_python(text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ConditionError("is not valid") from None

    def require_simple(self, names: Iterable[str]) -> None:
        """Raise if the condition has other names or parts than a stranger's text may have."""
        known = {*names, *self._functions}
        for node in ast.walk(self._tree):
            if not isinstance(node, _SIMPLE):
                raise ConditionError(f"may not contain {type(node).__name__}")
            if isinstance(node, ast.Name) and node.id not in known:
                raise ConditionError(f"has the unknown name {node.id}: use {', '.join(sorted(known))}")
            if isinstance(node, ast.Call) and (node.keywords or not isinstance(node.func, ast.Name)):
                raise ConditionError(f"may call only {', '.join(sorted(self._functions)) or 'nothing'}")

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Return whether the condition is true of these values."""
        known = {name: _members(value) for name, value in names.items()}
        evaluator = simpleeval.EvalWithCompoundTypes(
            operators=_OPERATORS, functions=self._functions, names=known
        )
        try:
            value = evaluator.eval(self.text, previously_parsed=self._tree)
        except (
            simpleeval.InvalidExpression,
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            RecursionError,
        ) as error:
            raise ConditionError(f"cannot be evaluated: {error}") from None
        if not isinstance(value, bool):
            raise ConditionError(f"is {value!r}: it must be true or false")
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
