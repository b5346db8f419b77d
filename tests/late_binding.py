"""Callbacks that are set from outside their class, although a class could get them when it is constructed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Callbacks(NamedTuple):
    """What one module says about functions that are kept in attributes."""

    aliases: set[str]
    """Names of types of functions."""
    types: set[tuple[str, str]]
    """Attributes of its classes with the names of their types; `A | None` are two names."""
    assigned: list[tuple[str, int]]
    """Attributes of other objects to which something that may be a function is assigned, with the lines."""


def callbacks_of(nodes: Iterable[ast.AST]) -> Callbacks:
    """Return what is found among the nodes of a module."""
    found = Callbacks(set(), set(), [])
    for node in nodes:
        if isinstance(node, ast.ClassDef):
            annotated = [each for each in ast.walk(node) if isinstance(each, ast.AnnAssign)]
            found.types.update((_name(each.target), t) for each in annotated for t in _types(each.annotation))
        elif isinstance(node, ast.FunctionDef):
            found.types.update(_from_parameters(node))
        elif isinstance(node, ast.Assign):
            if "Callable" in _types(node.value):
                found.aliases.update(map(_name, node.targets))
            if _may_be_function(node.value):
                found.assigned.extend((name, node.lineno) for name in _of_others(node.targets))
    return found


def late_bindings(modules: Sequence[tuple[str, Callbacks]]) -> list[str]:
    """Return the places that set a callback of another object."""
    functions = {"Callable"}.union(*(module.aliases for _, module in modules))
    kept = {attribute for _, module in modules for attribute, kind in module.types if kind in functions}
    return [
        f"{path}:{line} {name}" for path, module in modules for name, line in module.assigned if name in kept
    ]


def _from_parameters(node: ast.FunctionDef) -> Iterator[tuple[str, str]]:
    """Yield `x` and its types for `def f(self, a: Callable[…]): self.x = a`."""
    parameters = {each.arg: each.annotation for each in (*node.args.args, *node.args.kwonlyargs)}
    for each in node.body:
        value = each.value if isinstance(each, ast.Assign) else None
        annotation = parameters.get(value.id) if isinstance(value, ast.Name) else None
        if isinstance(each, ast.Assign) and annotation is not None:
            yield from ((_name(target), kind) for target in each.targets for kind in _types(annotation))


def _of_others(targets: Sequence[ast.expr]) -> Iterator[str]:
    for target in targets:
        if isinstance(target, ast.Attribute) and _name(target.value) not in ("self", "cls"):
            yield target.attr


def _may_be_function(value: ast.expr) -> bool:
    if isinstance(value, ast.Call):
        return _name(value.func) == "partial"
    return isinstance(value, ast.Lambda | ast.Name | ast.Attribute)


def _types(annotation: ast.expr) -> set[str]:
    """Return the names of a type, without those in brackets: a list of functions is a `list`."""
    if isinstance(annotation, ast.BinOp):
        return _types(annotation.left) | _types(annotation.right)
    return {_name(annotation.value if isinstance(annotation, ast.Subscript) else annotation)}


def _name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""
