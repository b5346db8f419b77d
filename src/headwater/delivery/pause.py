"""The pause of a consumer, which ends at a time of the wall clock."""

from __future__ import annotations

from headwater.clock import Clock

LONGEST_WAIT_NS = 60_000_000_000
"""How long the end of a pause is waited for at once: the wall clock may be set forward in the meantime."""


class Pause:
    """Says whether a consumer is paused, and when to check again."""

    def __init__(self, until_ns: int | None, clock: Clock) -> None:
        self._until_ns = until_ns
        """Nanoseconds since the epoch; None without a pause."""
        self._clock = clock

    @property
    def left_ns(self) -> int:
        """Return how long the pause still lasts; 0 if the consumer is not paused."""
        until_ns = self._until_ns
        return 0 if until_ns is None else max(until_ns - self._clock.now_ns(), 0)

    def next_check(self) -> int | None:
        """Return when to check again, on the steady clock, or None without a pause."""
        left_ns = self.left_ns
        return self._clock.steady_ns() + min(left_ns, LONGEST_WAIT_NS) if left_ns else None
