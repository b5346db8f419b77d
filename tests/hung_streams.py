"""Streams whose disk hangs, or whose rebuild never ends, until a test heals them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import DiskError
from headwater.stream.stream import Stream


class HungCalls:
    """Calls on any thread that hang until they are healed."""

    def __init__(self) -> None:
        self._healed = threading.Event()
        self.count = 0
        self.fails = False
        """Whether they fail once they are healed."""

    def before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return the call, made to hang first."""

        def hang(*given: Any, **named: Any) -> Any:
            self.count += 1
            self._healed.wait(120)
            if self.fails:
                raise DiskError(Path("hung"), "read", 5)
            return call(*given, **named)

        return hang

    def heal(self) -> None:
        """Let all calls continue, including later ones."""
        self._healed.set()


@contextmanager
def hung_disk(stream: Stream, patch: pytest.MonkeyPatch) -> Iterator[HungCalls]:
    """Have a stream's disk hang at every sync of its log; it heals at the end of the block at the latest."""
    hung = HungCalls()
    patch.setattr(stream._store.log, "sync", hung.before(stream._store.log.sync))
    try:
        yield hung
    finally:
        hung.heal()


@contextmanager
def endless_rebuild(stream: Stream, patch: pytest.MonkeyPatch) -> Iterator[HungCalls]:
    """Have the disk refuse a stream's next write, and hang when the stream is rebuilt after that."""
    hung, store = HungCalls(), stream._store
    append, refusals = store.log.append, [DiskError(store.directory, "write", 5)]

    def refuse_once(encoded: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return append(encoded)

    patch.setattr(store.log, "append", refuse_once)
    patch.setattr(store, "replay", hung.before(store.replay))
    try:
        yield hung
    finally:
        hung.heal()
