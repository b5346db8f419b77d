"""The clock from which all components read the time: the system's, or one that a test drives."""

from __future__ import annotations

import time
from typing import Protocol

_STARTED_NS = time.time_ns() - time.monotonic_ns()
STEP_NS = 1_000_000_000
"""By how much the wall clock must differ from the steady time to count as stepped."""

AHEAD_NS = 60_000_000_000
"""A recorded time further ahead of the clock than this was recorded by a clock that was set wrong."""


class Clock(Protocol):
    """A source of wall clock time, and of steady time, which never steps."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        ...

    def steady_ns(self) -> int:
        """Return the wall clock time at the process's start plus the time elapsed since; for deadlines."""
        ...

    def stepped_ns(self) -> int:
        """Return by how much the wall clock was stepped since the process started."""
        ...


class SystemClock:
    """The machine's clock."""

    def __init__(self) -> None:
        self._stepped_ns = 0
        """The last step that was larger than `STEP_NS`."""

    def now_ns(self) -> int:
        """Return nanoseconds since the epoch."""
        return time.time_ns()

    def steady_ns(self) -> int:
        """Return the process's start plus the time elapsed since, whatever the wall clock did."""
        return _STARTED_NS + time.monotonic_ns()

    def stepped_ns(self) -> int:
        """Return by how much the wall clock was stepped; the value changes only when it is stepped again.

        Two readings never fall on the same nanosecond, and wall clocks drift. Differences below `STEP_NS` are
        ignored, so that times computed with this value do not jitter.
        """
        stepped_ns = self.now_ns() - self.steady_ns()
        if abs(stepped_ns - self._stepped_ns) > STEP_NS:
            self._stepped_ns = stepped_ns
        return self._stepped_ns


class DrivenClock:
    """A clock that does not move until a test advances it."""

    def __init__(self, start_ns: int = 1_700_000_000_000_000_000) -> None:
        self._now_ns = start_ns
        self._steady_ns = start_ns
        """Advances with the other, but is never stepped."""

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
        """Let this much time pass."""
        assert nanoseconds >= 0
        self._now_ns += nanoseconds
        self._steady_ns += nanoseconds

    def step(self, nanoseconds: int) -> None:
        """Set the wall clock forward or back."""
        self._now_ns += nanoseconds
