"""The clock that everything asks for the time, real or driven by a test."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock time."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        ...


class SystemClock:
    """The clock of the machine."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        return time.time_ns()


class DrivenClock:
    """A clock that stands still until a test advances it."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        return self._now_ns

    def advance(self, nanoseconds: int) -> None:
        """Move the clock forward."""
        assert nanoseconds >= 0
        self._now_ns += nanoseconds
