"""A YAML file as values that know their line, so that errors name it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar

import yaml

from headwater.errors import SettingsError

Value = TypeVar("Value")


@dataclass(frozen=True)
class Entry:
    """One value of a document (a mapping, a list or a plain value) and its position."""

    value: Any
    file: Path
    line: int
    path: str = ""

    def wrong(self, why: str) -> SettingsError:
        """Return the error that names this place."""
        where = f" {self.path}:" if self.path else ""
        return SettingsError(f"{self.file}:{self.line}:{where} {why}")

    def fields(self, *known: str) -> dict[str, Entry]:
        """Return the entries of a mapping by name; unknown names are refused."""
        held = self.entries()
        for name, entry in held.items():
            if name not in known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"use {', '.join(sorted(known))}"
                raise entry.wrong(f"unknown key {name!r}: {hint}")
        return held

    def entries(self) -> dict[str, Entry]:
        """Return the entries of a mapping with arbitrary names."""
        if self.value is None:
            return {}
        if not isinstance(self.value, dict):
            raise self.wrong("must be a mapping")
        return dict(self.value)

    def items(self) -> list[Entry]:
        """Return the entries of a list."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            raise self.wrong("must be a list")
        return list(self.value)

    def text(self) -> str:
        """Return a plain value as text; numbers and booleans as they were written."""
        if isinstance(self.value, dict | list) or self.value is None:
            raise self.wrong("must be text")
        return self.value if isinstance(self.value, str) else _written(self.value)

    def number(self, low: int, high: int) -> int:
        """Return a whole number within bounds."""
        if isinstance(self.value, bool) or not isinstance(self.value, int) or not low <= self.value <= high:
            raise self.wrong(f"must be a whole number between {low} and {high}")
        return self.value

    def truth(self) -> bool:
        """Return whether the value is true."""
        if not isinstance(self.value, bool):
            raise self.wrong("must be true or false")
        return self.value

    def choice(self, *choices: str) -> str:
        """Return one of the choices."""
        if self.value not in choices:
            raise self.wrong(f"must be one of {', '.join(choices)}")
        return str(self.value)

    def existing(self) -> Path:
        """Return an existing file; a relative path is relative to the document's directory."""
        path = self.file.parent / Path(self.text()).expanduser()
        if not path.is_file():
            raise self.wrong(f"there is no file {path}")
        return path.absolute()

    def json(self) -> Any:
        """Return the value without positions."""
        if isinstance(self.value, dict):
            return {name: entry.json() for name, entry in self.value.items()}
        if isinstance(self.value, list):
            return [entry.json() for entry in self.value]
        return self.value


def optional(held: Mapping[str, Entry], name: str, read: Callable[[Entry], Value], default: Value) -> Value:
    """Return the value of a name, or the default if it is missing."""
    return read(held[name]) if name in held else default


def read_document(path: Path) -> Entry:
    """Return a YAML file; two keys of the same name are refused."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"cannot read {path}: {error}") from None
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            raise SettingsError(f"{path} is empty")
        return _entry(loader, node, path, "")
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise SettingsError(f"{path}:{line}: this is not YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{path} is not YAML: {error}") from None
    finally:
        loader.dispose()


def _entry(loader: yaml.SafeLoader, node: yaml.Node, file: Path, path: str) -> Entry:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return Entry(_mapping(loader, node, file, path), file, line, path)
    if isinstance(node, yaml.SequenceNode):
        items = [_entry(loader, item, file, f"{path}[{place}]") for place, item in enumerate(node.value)]
        return Entry(items, file, line, path)
    value = loader.construct_object(node)
    # A date is taken as text, as in JSON.
    plain = value if value is None or isinstance(value, bool | int | float | str) else node.value
    return Entry(plain, file, line, path)


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode, file: Path, path: str) -> dict[str, Entry]:
    held: dict[str, Entry] = {}
    for key, value in node.value:
        name = str(key.value)
        inner = f"{path}.{name}" if path else name
        if name in held:
            raise SettingsError(f"{file}:{key.start_mark.line + 1}: {inner}: the key is listed twice")
        found = _entry(loader, value, file, inner)
        held[name] = Entry(found.value, file, key.start_mark.line + 1, inner)
    return held


def _written(value: bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def listed(names: Iterable[str]) -> str:
    """Return names separated by commas."""
    return ", ".join(names) or "none"
