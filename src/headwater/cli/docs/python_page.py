"""The reference page of the Python package, written from its docstrings."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import headwater

INTRO = """# Python package

`import headwater` gives the names on this page, and `headwater.__all__` lists them. They are stable: a
release does not remove or rename one, and does not change what it means. Everything else in the package may
change at any time. All names have types (`py.typed`). The guide [use it from Python](../guides/python.md)
shows them together.

This page is written from the docstrings by `make docs-pages`.
"""
GROUPS = {
    "Read streams as tables": ("scan", "read", "Lake", "StoredStream"),
    "Ask a server": (
        "connect",
        "PendingClient",
        "AsyncClient",
        "SyncClient",
        "StreamInfo",
        "UpstreamInfo",
        "UpstreamGap",
        "Phase",
        "CatchUpError",
    ),
    "Run an engine": ("serve", "LocalEngine"),
    "Errors": ("Error",),
}

CONSTRUCTED = ("Lake",)
"""Classes that users construct; functions return the others."""


def python_page() -> str:
    """Return the page."""
    parts = [INTRO]
    for title, names in GROUPS.items():
        parts.append(f"## {title}\n")
        parts += [_entry(name, getattr(headwater, name)) for name in names]
    return "\n".join(parts)


def _entry(name: str, thing: Any) -> str:
    if not isinstance(thing, type):
        return f"### {name}\n\n{_signature(f'headwater.{name}', thing)}\n{_doc(thing)}\n"
    lines = [f"### {name}\n", f"{_doc(thing)}\n"]
    if name in CONSTRUCTED:
        lines.insert(1, _signature(f"headwater.{name}", thing))
    if rows := list(_fields(thing)):
        lines += ["| field | type | |", "|---|---|---|", *rows, ""]
    for member, value in _members(thing):
        lines.append(_member(name, member, value))
    return "\n".join(lines)


def _fields(kind: type) -> Iterator[str]:
    """Yield a row for each field of a value, or each member of an enumeration."""
    said = _docs_of_fields(kind)
    if is_dataclass(kind):
        for field in fields(kind):
            yield f"| `{field.name}` | `{_cell(str(field.type))}` | {_cell(said.get(field.name, ''))} |"
    elif issubclass(kind, Enum):
        for member in kind:
            yield f"| `{member.name}` | `{member.value!r}` | {_cell(said.get(member.name, ''))} |"


def _docs_of_fields(kind: type) -> dict[str, str]:
    """Return the docstrings that stand below the fields of a class."""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    found = {}
    for field, said in zip(body.body, body.body[1:], strict=False):
        target = field.target if isinstance(field, ast.AnnAssign) else None
        if isinstance(field, ast.Assign):
            target = field.targets[0] if isinstance(field.targets[0], ast.Name) else None
        if (
            isinstance(target, ast.Name)
            and isinstance(said, ast.Expr)
            and isinstance(said.value, ast.Constant)
        ):
            found[target.id] = re.sub(r"\s+", " ", str(said.value.value)).strip()
    return found


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties that a class defines itself, in the order of the code."""
    for name, value in vars(kind).items():
        if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property)):
            yield name, value


def _member(owner: str, name: str, value: Any) -> str:
    if isinstance(value, property):
        returns = inspect.signature(value.fget).return_annotation if value.fget else ""
        return f"#### {owner}.{name}\n\n```python\n{name}: {returns}\n```\n\n{_doc(value)}\n"
    return f"#### {owner}.{name}()\n\n{_signature(name, value)}\n{_doc(value)}\n"


def _signature(name: str, function: Any) -> str:
    signature = inspect.signature(function)
    given = [each for each in signature.parameters.values() if each.name != "self"]
    shown = str(signature.replace(parameters=given, return_annotation=inspect.Signature.empty))
    # Annotations are text, which a signature shows in quotes.
    shown = re.sub(r": '([^']*)'", r": \1", shown)
    word = "async " if inspect.iscoroutinefunction(function) else ""
    returns = "" if isinstance(function, type) else f" -> {signature.return_annotation}"
    line = f"{word}{name}{shown}{returns}"
    return f"```python\n{_wrapped(line)}\n```\n"


def _wrapped(line: str) -> str:
    """Return a long signature with one parameter a line."""
    if len(line) <= 100:
        return line
    head, _, rest = line.partition("(")
    inside, _, tail = rest.rpartition(") ->")
    parameters = re.split(r", (?![^\[(]*[\])])", inside)
    return f"{head}(\n" + "".join(f"    {each},\n" for each in parameters) + f") ->{tail}"


def _doc(thing: Any) -> str:
    return inspect.getdoc(thing) or ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    print(python_page(), end="")
