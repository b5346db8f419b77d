"""The sub-commands of a group, each imported when it is first used.

`headwater serve` and every start of a client command would otherwise wait for the libraries of all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module

import click


class LazyCommands(MutableMapping[str, click.Command]):
    """Commands by name, loaded on demand."""

    def __init__(self, places: Mapping[str, str], prepare: Callable[[str, click.Command], None]) -> None:
        self._places = dict(places)
        """By name, the module and the function of a command, with a colon between them."""
        self._prepare = prepare
        """Called with the name of a command and the command, once, when it is loaded."""
        self._loaded: dict[str, click.Command] = {}
        """The commands that were used or set."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            command = getattr(import_module(module), attribute)
            assert isinstance(command, click.Command), name
            self._prepare(name, command)
            self._loaded[name] = command
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._places

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        if name not in self:
            raise KeyError(name)
        self._loaded.pop(name, None)
        self._places.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._places.keys() | self._loaded.keys())

    def __len__(self) -> int:
        return len(self._places.keys() | self._loaded.keys())
