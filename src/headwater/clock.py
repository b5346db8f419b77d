"""The clock that everything asks for the time, real or driven by a test."""

from __future__ import annotations

import time
from typing import Protocol

_STARTED_NS = time.time_ns() - time.monotonic_ns()
STEP_NS = 1_000_000_000
"""By how much the wall clock must differ from the steady time to count as set."""

AHEAD_NS = 60_000_000_000
"""A recorded time further ahead of the clock than this was given by a clock that was set wrong."""


class Clock(Protocol):
    """A source of the time that clocks on walls show, and of one that never steps."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        ...

    def steady_ns(self) -> int:
        """Return the same as of the process's start, and from then on what has passed: for deadlines."""
        ...

    def stepped_ns(self) -> int:
        """Return by how much the wall clock has been set since the process's start."""
        ...


class SystemClock:
    """The clock of the machine."""

    def __init__(self) -> None:
        self._stepped_ns = 0

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        return time.time_ns()

    def steady_ns(self) -> int:
        """Return when the process started and what has passed since, whatever the wall clock did."""
        return _STARTED_NS + time.monotonic_ns()

    def stepped_ns(self) -> int:
        """Return by how much the wall clock was set, the same until it is set again.

        Two readings never fall on the same nanosecond and wall clocks drift, so that small differences do not
        count: what is shown by this stays the same from one time to the next.
        """
        stepped_ns = self.now_ns() - self.steady_ns()
        if abs(stepped_ns - self._stepped_ns) > STEP_NS:
            self._stepped_ns = stepped_ns
        return self._stepped_ns


class DrivenClock:
    """A clock that stands still until a test advances it."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now_ns = start_ns
        self._steady_ns = start_ns

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        return self._now_ns

    def steady_ns(self) -> int:
        """Return nanoseconds that no step changes."""
        return self._steady_ns

    def stepped_ns(self) -> int:
        """Return the sum of all steps."""
        return self._now_ns - self._steady_ns

    def advance(self, nanoseconds: int) -> None:
        """Let time pass."""
        assert nanoseconds >= 0
        self._now_ns += nanoseconds
        self._steady_ns += nanoseconds

    def step(self, nanoseconds: int) -> None:
        """Set the wall clock forward, or back."""
        self._now_ns += nanoseconds
