"""What an engine counts and times while it works; the metrics page shows it.

Plain numbers that the event loop changes. A number that a thread changes has its own lock.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

LATENCIES_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
"""Upper bounds for what a client waits for."""
DURATIONS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 120.0)
"""Upper bounds for work in the background."""


class Histogram:
    """How many values were at most each of some bounds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        """How many values are above the bound before and not above this one; the last has no bound."""
        self.total = 0.0
        """The sum of all values."""

    def observe(self, value: float, times: int = 1) -> None:
        """Record a value, once or several times."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """Return how many values were recorded."""
        return sum(self._counts)

    def cumulative(self) -> list[int]:
        """Return for each bound, and at last for infinity, how many values are not above it."""
        seen, reached = 0, []
        for count in self._counts:
            seen += count
            reached.append(seen)
        return reached


class Meters:
    """The numbers of one engine."""

    def __init__(self) -> None:
        self.ack_latency = Histogram(LATENCIES_S)
        """By stored message: from the first unanswered message of its group to the group's answers."""
        self.commits = Histogram(LATENCIES_S)
        """How long appending and syncing one group took."""
        self.stored_messages = 0
        self.stored_bytes = 0
        """Bytes that were appended to logs."""
        self.refused_commits = 0
        """Groups that the disk or the journal refused."""
        self.folds = Histogram(DURATIONS_S)
        self.failed_folds = 0
        self.compactions = Histogram(DURATIONS_S)
        self.loop_delay = Histogram(LATENCIES_S)
        """How late the event loop ran a timer."""
        self.deliveries = 0
        """Messages that were delivered to consumers for the first time."""
        self.redeliveries = 0
        self.acks = 0
        """Acks of clients that settled a message."""
        self.naks = 0
        self.terminated = 0
        """Messages that clients ended with a term."""

    def committed(self, messages: int, nbytes: int, disk_s: float, waited_s: float) -> None:
        """Record a group that became durable."""
        self.commits.observe(disk_s)
        self.stored_bytes += nbytes
        if messages > 0:
            self.stored_messages += messages
            self.ack_latency.observe(waited_s, messages)
