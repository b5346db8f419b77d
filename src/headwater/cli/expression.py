"""Conditions over a stream's info as people write them: `state.messages > 10 and config.sealed`."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from headwater.errors import SettingsError

_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, items: item in (items or ()),
    ast.NotIn: lambda item, items: item not in (items or ()),
}
_COUNT: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Mod: operator.mod,
}
_STRINGS = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')""")
_WORDS = (
    (re.compile(r"&&"), " and "),
    (re.compile(r"\|\|"), " or "),
    (re.compile(r"!(?!=)"), " not "),
    (re.compile(r"\btrue\b"), "True"),
    (re.compile(r"\bfalse\b"), "False"),
    (re.compile(r"\bnil\b"), "None"),
)


class Expression:
    """A condition, read once and asked of many values."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self._tree = ast.parse(_python(text).strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError):
            raise SettingsError(
                f"--expression cannot be read: {text!r}; write as in state.messages > 10"
            ) from None

    def holds(self, names: Mapping[str, Any]) -> bool:
        """Return whether the condition is true of these values."""
        try:
            value = self._value(self._tree, names)
        except TypeError:
            raise SettingsError(f"--expression compares what cannot be compared: {self.text!r}") from None
        if not isinstance(value, bool):
            raise SettingsError(f"--expression must be true or false, not {value!r}: {self.text!r}")
        return value

    def _value(self, node: ast.expr, names: Mapping[str, Any]) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.Attribute(value=inner, attr=key):
                return _member(self._value(inner, names), key)
            case ast.Subscript(value=inner, slice=key):
                return _member(self._value(inner, names), self._value(key, names))
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return [self._value(item, names) for item in items]
            case ast.BoolOp(op=ast.And(), values=parts):
                return all(self._value(part, names) for part in parts)
            case ast.BoolOp(values=parts):
                return any(self._value(part, names) for part in parts)
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return not self._value(inner, names)
            case ast.UnaryOp(op=ast.USub(), operand=inner):
                return -self._value(inner, names)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _COUNT:
                return _COUNT[type(op)](self._value(left, names), self._value(right, names))
            case ast.Compare(left=left, ops=ops, comparators=others) if all(
                type(op) in _COMPARE for op in ops
            ):
                return self._compared(left, ops, others, names)
        known = ", ".join(sorted(names))
        raise SettingsError(f"--expression may use {known} and comparisons only: {self.text!r}")

    def _compared(
        self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr], names: Mapping[str, Any]
    ) -> bool:
        value = self._value(left, names)
        for op, other in zip(ops, others, strict=True):
            following = self._value(other, names)
            if not _COMPARE[type(op)](value, following):
                return False
            value = following
        return True


def _member(holder: Any, key: Any) -> Any:
    """Return a member; one that the API left out is None."""
    if isinstance(holder, dict):
        return holder.get(key)
    if isinstance(holder, list) and isinstance(key, int):
        return holder[key] if -len(holder) <= key < len(holder) else None
    return None


def _python(text: str) -> str:
    """Return the condition with other languages' words for and, or, not, true; strings stay as they are."""
    parts = _STRINGS.split(text)
    for place in range(0, len(parts), 2):
        for word, meant in _WORDS:
            parts[place] = word.sub(meant, parts[place])
    return "".join(parts)
