"""Lists that are answered a page at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from headwater.wire.stream_json import Json

NAMES_LIMIT = 1024
LIST_LIMIT = 256
SUBJECTS_LIMIT = 100_000

_T = TypeVar("_T")


def page(items: Sequence[_T], offset: int, limit: int) -> tuple[Sequence[_T], Json]:
    """Return the items from the offset on, at most `limit`, and what the answer says about the page."""
    start = min(max(offset, 0), len(items))
    return items[start : start + limit], {"total": len(items), "offset": start, "limit": limit}


def fitting(sizes: Sequence[int], room: int) -> int:
    """Return how many items from the first on fit into the room; at least one, to get on."""
    taken = 0
    for count, size in enumerate(sizes):
        taken += size
        if taken > room and count:
            return count
    return len(sizes)
