"""How fast a consumer delivers: at once, at the original speed, or at a rate limit."""

from __future__ import annotations

from headwater.model.consumer import ConsumerConfig, ReplayPolicy


class Pacing:
    """Computes how long to wait before the next message; the caller passes times in nanoseconds.

    Messages stored after the pacing began are not replayed: only the rate limit delays them.
    """

    def __init__(self, config: ConsumerConfig) -> None:
        self._original = config.replay_policy is ReplayPolicy.ORIGINAL
        """Whether messages keep the gaps with which they were stored."""
        self._bytes_per_s = config.rate_limit_bps / 8
        """The rate limit; 0 without one."""
        self._began_ns: int | None = None
        """When the first message was asked for: later ones are not replayed."""
        self._last_stored_ns: int | None = None
        """When the message that was sent last was stored."""
        self._last_sent_ns = 0
        self._free_at_ns = 0
        """When the rate limit allows the next message."""

    @property
    def one_by_one(self) -> bool:
        """Return whether each message has its own delay."""
        return self._original or bool(self._bytes_per_s)

    def wait_ns(self, stored_ns: int, now_ns: int) -> int:
        """Return how long a message stored at this time must wait; 0 if it may be sent."""
        wait = 0
        if self._began_ns is None:
            self._began_ns = now_ns
        if self._original and self._last_stored_ns is not None and stored_ns <= self._began_ns:
            gap = max(stored_ns - self._last_stored_ns, 0)
            wait = self._last_sent_ns + gap - now_ns
        if self._bytes_per_s:
            wait = max(wait, self._free_at_ns - now_ns)
        return max(wait, 0)

    def sent(self, stored_ns: int, size: int, now_ns: int) -> None:
        """Record that a message was sent."""
        self._last_stored_ns = stored_ns
        self._last_sent_ns = now_ns
        if self._bytes_per_s:
            self._free_at_ns = max(self._free_at_ns, now_ns) + int(size / self._bytes_per_s * 1e9)
