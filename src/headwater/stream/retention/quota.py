"""How many of something are open over all streams of an engine."""

from __future__ import annotations


class Quota:
    """A number that the streams count up and down together."""

    def __init__(self) -> None:
        self.open = 0
        """Each stream adds when it opens one, and subtracts when it ends."""
