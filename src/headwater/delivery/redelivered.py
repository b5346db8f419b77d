"""How often a consumer's messages were redelivered, by sequence."""

from __future__ import annotations

from collections.abc import Mapping

_NONE = 2**63 - 1


class Redelivered:
    """Counts by sequence, with a lower bound of the sequences so that most lookups need no search."""

    __slots__ = ("_bound", "counts")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        """How often each message was redelivered, or given up."""
        self._bound = _NONE
        """No counted sequence is lower than this."""

    def __len__(self) -> int:
        return len(self.counts)

    def __contains__(self, seq: int) -> bool:
        return seq in self.counts

    def get(self, seq: int) -> int:
        """Return the count of a message; 0 if it was delivered once or never."""
        return self.counts.get(seq, 0)

    def set(self, seq: int, count: int) -> None:
        """Set the count of a message."""
        self.counts[seq] = count
        self._bound = min(self._bound, seq)

    def pop(self, seq: int) -> bool:
        """Remove a message; return whether it was counted."""
        return self.counts.pop(seq, None) is not None

    def pop_below(self, seq: int) -> list[int]:
        """Remove and return the messages below this sequence."""
        if self._bound >= seq:
            return []
        gone = [counted for counted in self.counts if counted < seq]
        for counted in gone:
            del self.counts[counted]
        self._bound = min(self.counts, default=_NONE)
        return gone

    def load(self, counts: Mapping[int, int]) -> None:
        """Set the counts, replacing all others."""
        self.counts = dict(counts)
        self._bound = min(self.counts, default=_NONE)
