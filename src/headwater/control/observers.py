"""The observers of an account's streams, notified in the order in which they were added."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from typing import Protocol

from headwater.model.stream import StreamConfig
from headwater.stream.stream import Stream


class Observer(Protocol):
    """Keeps subscriptions or other state in step with the streams."""

    def on_opened(self, stream: Stream) -> None:
        """A stream is open and accepts messages from now on."""
        ...

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """A stream's config was replaced."""
        ...

    def on_closed(self, stream: Stream) -> None:
        """A stream is about to be closed and accepts no more messages."""
        ...


Prepare = Callable[[Stream], Awaitable[None]]
"""Reads what an observer needs to know about a stream, before any observer is notified."""


class Observers:
    """All observers as one."""

    def __init__(self) -> None:
        self._observers: list[Observer] = []
        self._preparations: list[Prepare] = []

    def __iter__(self) -> Iterator[Observer]:
        return iter(self._observers)

    def add(self, observer: Observer, prepare: Prepare | None = None) -> None:
        """Add an observer, and what it does with a stream before all observers are notified."""
        self._observers.append(observer)
        if prepare is not None:
            self._preparations.append(prepare)

    async def prepare(self, stream: Stream) -> None:
        """Prepare a stream for every observer; raise if one of them fails."""
        for prepare in self._preparations:
            await prepare(stream)

    def on_opened(self, stream: Stream) -> None:
        """Notify all that a stream is open."""
        for observer in self._observers:
            observer.on_opened(stream)

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """Notify all that a stream's config was replaced."""
        for observer in self._observers:
            observer.on_changed(stream, old)

    def on_closed(self, stream: Stream) -> None:
        """Notify all that a stream is about to be closed."""
        for observer in self._observers:
            observer.on_closed(stream)
