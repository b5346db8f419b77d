"""Exponential back-off: the wait before the next attempt doubles after each failure."""

from __future__ import annotations


def wait_s(failures: int, first_s: float, longest_s: float) -> float:
    """Return the wait after this many failures in a row."""
    return float(min(first_s * 2.0 ** min(max(failures - 1, 0), 16), longest_s))


class Backoff:
    """The waits of one retry loop, or of one process that is restarted when it dies."""

    def __init__(self, first_s: float, longest_s: float, settled_s: float = float("inf")) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._settled_s = settled_s
        """A run of this length counts as a success, even if it then fails."""
        self.failures = 0
        """Failures since the last success."""

    def next_s(self, ran_s: float = 0.0) -> float:
        """Record a failure after a run of this length, and return how long to wait."""
        self.failures = 1 if ran_s > self._settled_s else self.failures + 1
        return wait_s(self.failures, self._first_s, self._longest_s)

    def reset(self) -> None:
        """Record a success."""
        self.failures = 0
