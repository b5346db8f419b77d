"""Compares mirrors and sources with their origins in the same store: cursors, and what origins removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyroaring import BitMap64

from headwater.model.counted import counted
from headwater.model.cursor import LOST, Cursor
from headwater.model.stream import Retention, StreamConfig
from headwater.model.upstream import StreamSource
from headwater.store.finding import Finding, Kind, note, problem

_AHEAD = "It is not copied any further until the origin is as long again"
_AHEAD_REMEDY = "Restore the origin, or create the mirror or source again"
_LOST_REMEDY = "Edit the stream and set opt_start_seq of this source to the first sequence to copy"


@dataclass(frozen=True)
class OpenedStream:
    """What a stream said about itself when it was opened for a check."""

    account: str
    config: StreamConfig
    home: Path
    identity: str
    first_seq: int
    last_seq: int
    deleted: BitMap64
    cursors: Mapping[str, Cursor]


def compare_copies(streams: list[OpenedStream]) -> list[tuple[OpenedStream, Finding]]:
    """Return what is wrong between targets and origins, each with its target. Pure code."""
    by_name = {(each.account, each.config.name): each for each in streams}
    found = []
    for target in streams:
        for source in (*target.config.sources, *([target.config.mirror] if target.config.mirror else [])):
            cursor = target.cursors.get(source.index_name, Cursor())
            origin = by_name.get((target.account, source.name)) if source.external is None else None
            said = _lost(target, source, cursor) or (origin and _compared(target, source, cursor, origin))
            if said:
                found.append((target, said))
    return found


def _lost(target: OpenedStream, source: StreamSource, cursor: Cursor) -> Finding | None:
    if cursor.identity != LOST or source.opt_start_seq not in (0, cursor.seq):
        return None
    what = f"source {source.name!r}: how far it was copied was lost with a damaged checkpoint"
    return problem(Kind.CURSOR, target.home, what, "It is not copied any further", _LOST_REMEDY)


def _compared(
    target: OpenedStream, source: StreamSource, cursor: Cursor, origin: OpenedStream
) -> Finding | None:
    if cursor.identity != origin.identity:
        return None
    if cursor.seq > origin.last_seq:
        what = f"{source.name!r} was copied up to sequence {cursor.seq}, but it ends at {origin.last_seq}"
        return problem(Kind.CURSOR, target.home, what, _AHEAD, _AHEAD_REMEDY)
    removed = removed_after(origin, max(cursor.seq, source.opt_start_seq - 1))
    if origin.config.retention is Retention.LIMITS or not removed:
        return None
    gone = counted(removed, "message")
    what = f"{source.name!r} has removed {gone} after sequence {cursor.seq}, the last one copied"
    return note(target.home, f"{what}: they were deleted, expired, or are not on this copy's subjects")


def removed_after(origin: OpenedStream, seq: int) -> int:
    """Return how many messages after a sequence the origin has no longer."""
    below = max(0, min(origin.first_seq - 1, origin.last_seq) - seq)
    start = max(seq + 1, origin.first_seq)
    return below + origin.deleted.range_cardinality(start, max(origin.last_seq + 1, start))
