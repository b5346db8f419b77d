"""What the parts of all bulk writes of an account take, and how much that may be."""

from __future__ import annotations

from typing import NamedTuple

from headwater.errors import api_error

MOST_PARTS = 20_000
"""How many parts the writes of an account may have, finished ones included."""
MOST_UNFINISHED = 1_024
"""How many of them may be unfinished: each has a file open."""
MOST_SUBJECTS = 2_000_000
"""How many subjects all parts may have, counted in each part."""
MOST_HELD_BYTES = 256 << 20
"""Above so many bytes in memory, each chunk is written to its file at once."""


class PartLoad(NamedTuple):
    """What one part takes."""

    parts: int = 0
    unfinished: int = 0
    subjects: int = 0
    held_bytes: int = 0


NOTHING = PartLoad()


class StagedLoad:
    """The sum over the parts of an account."""

    def __init__(self) -> None:
        self.total = NOTHING

    def change(self, before: PartLoad, after: PartLoad) -> None:
        """Count what a part takes now instead of what it took before."""
        columns = zip(self.total, before, after, strict=True)
        self.total = PartLoad(*(total - old + new for total, old, new in columns))

    def require_room(self, *, is_new: bool) -> None:
        """Refuse a chunk, perhaps the first of a new part, if the account has too much staged already."""
        is_full = self.total.parts >= MOST_PARTS or self.total.unfinished >= MOST_UNFINISHED
        if (is_new and is_full) or self.total.subjects >= MOST_SUBJECTS:
            raise api_error("insufficient_resources")

    @property
    def is_heavy(self) -> bool:
        """Return whether chunks are to be written at once."""
        return self.total.held_bytes > MOST_HELD_BYTES
