"""Callbacks of one kind, called in the order in which they were added.

A set would order them by address. Then two runs of one simulated seed could differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

_C = TypeVar("_C", bound=Callable[..., object])


class Callbacks(Generic[_C]):
    """Functions that one event calls, each of them once."""

    def __init__(self) -> None:
        self._callbacks: dict[_C, None] = {}
        """The callbacks as keys: a dict keeps their order."""

    def __len__(self) -> int:
        return len(self._callbacks)

    def __iter__(self) -> Iterator[_C]:
        return iter(tuple(self._callbacks))

    def add(self, callback: _C) -> None:
        """Call it from now on."""
        self._callbacks[callback] = None

    def discard(self, callback: _C) -> None:
        """Call it no more."""
        self._callbacks.pop(callback, None)
