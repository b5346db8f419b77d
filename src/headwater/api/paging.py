"""Paged lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from headwater.wire.stream_json import Json

NAMES_LIMIT = 1024
LIST_LIMIT = 256
SUBJECTS_LIMIT = 100_000

_T = TypeVar("_T")


def page(items: Sequence[_T], offset: int, limit: int) -> tuple[Sequence[_T], Json]:
    """Return the items from the offset on, at most `limit`, and the paging fields of the answer."""
    start = min(max(offset, 0), len(items))
    return items[start : start + limit], {"total": len(items), "offset": start, "limit": limit}


def fitting(sizes: Sequence[int], room: int) -> int:
    """Return how many items from the first on fit; at least one, so that there is progress."""
    taken = 0
    for count, size in enumerate(sizes):
        taken += size
        if taken > room and count:
            return count
    return len(sizes)
