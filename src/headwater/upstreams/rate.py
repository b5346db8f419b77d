"""A smoothed rate per second, computed from amounts that arrive in bursts."""

from __future__ import annotations

from math import exp

SECOND = 1_000_000_000
SPAN_NS = 10 * SECOND
"""The time constant: older amounts hardly count."""


class Rate:
    """An exponentially weighted average over the last seconds; correct from the first amount on."""

    def __init__(self) -> None:
        self._value = 0.0
        """The rate as of `_at_ns`, decayed over time."""
        self._at_ns = 0
        self._began_ns = 0
        """When the first amount was counted; 0 before that."""

    def begin(self, now_ns: int) -> None:
        """Record that work begins now: amounts added later took the time since then."""
        if not self.at(now_ns):
            self._value = 0.0
            self._began_ns = self._at_ns = now_ns

    def add(self, amount: float, now_ns: int) -> None:
        """Add an amount."""
        if not self._began_ns:
            self.begin(now_ns - SECOND)
        self._value = self._faded(now_ns) + amount / (SPAN_NS / SECOND)
        self._at_ns = now_ns

    def at(self, now_ns: int) -> float:
        """Return the rate per second; 0 if it is negligible."""
        spanned_ns = max(now_ns - self._began_ns, SECOND // 10)
        rate = self._faded(now_ns) / (1 - exp(-spanned_ns / SPAN_NS))
        return rate if rate >= 0.01 else 0.0

    def _faded(self, now_ns: int) -> float:
        return self._value * exp(-max(now_ns - self._at_ns, 0) / SPAN_NS)
