"""Whether this engine still owns its store: asked after every sync, before anything is acknowledged."""

from __future__ import annotations

from typing import Protocol


class Fence(Protocol):
    """What stands between an engine that lost its store and everything that it would still write."""

    @property
    def epoch(self) -> int:
        """Return the number of this ownership: each take-over of the store has a higher one."""
        ...

    def check(self) -> None:
        """Return if the store is still ours at this moment; raise `FencedError` now and for ever if not."""
        ...


class NoFence:
    """For what nobody else can own: a store in memory, a test."""

    epoch = 0

    def check(self) -> None:
        """Return."""


NO_FENCE = NoFence()
