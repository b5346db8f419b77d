"""Which range of an origin is copied next, and what a transfer task needs for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from headwater.model.cursor import Cursor
from headwater.model.unique import unique_id
from headwater.replication.upstream import Upstream
from headwater.replication.work import FileRange, NatsOrigin, Work
from headwater.stream.stream import Stream
from headwater.table.datafile import DataFile

WORK_BYTES = 256 << 20
"""About how much of an origin one piece of work reads, so that a long catch-up shows progress."""
TAIL_BYTES = 192 << 10
PIECE_BYTES = 8 << 20
"""How much a task reads at the least before its work is shared out."""
MOST_PIECES = 8


@dataclass(frozen=True, slots=True)
class Extent:
    """An origin as it stands: which one it is, and its first and last sequence."""

    identity: str
    first_seq: int
    last_seq: int


def next_seq(upstream: Upstream, extent: Extent, start_seq: int) -> int:
    """Return the first sequence of the origin that is still to be copied.

    `start_seq` is where an upstream begins that has no cursor yet.
    """
    cursor = upstream.cursor
    if cursor.identity == extent.identity:
        return cursor.seq + 1
    return start_seq


@dataclass(frozen=True, slots=True)
class CursorAt:
    """Makes cursors of one origin."""

    identity: str

    def __call__(self, seq: int) -> bytes:
        """Return the cursor that says: copied up to here."""
        return Cursor(self.identity, seq).encode()


async def plan_local(upstream: Upstream, origin: Stream, extent: Extent, start_seq: int) -> list[Work]:
    """Return the next pieces of work on a stream of the same engine: its files first, then its head.

    The pieces follow on each other, and each expects the cursor that the one before it leaves.
    """
    files = origin.copying.files_from(start_seq, WORK_BYTES)
    if files:
        stop_seq = min(files[-1].last_seq, extent.last_seq)
        size = sum(file.size_bytes for file in files)
        return [
            _piece_of_files(upstream, origin, extent, files, first, last, first == start_seq)
            for first, last in pieces(start_seq, stop_seq, size)
        ]
    tail, stop_seq = await origin.copying.tail_from(start_seq, TAIL_BYTES)
    return [] if stop_seq < start_seq else [_work(upstream, extent, start_seq, stop_seq, tail=tail)]


def pieces(start_seq: int, stop_seq: int, size: int) -> list[tuple[int, int]]:
    """Return a range cut so that tasks can share it, each with at least some megabytes to read."""
    count = max(1, min(MOST_PIECES, size // PIECE_BYTES, stop_seq - start_seq + 1))
    cuts = [start_seq + (stop_seq - start_seq + 1) * number // count for number in range(count + 1)]
    return [(first, after - 1) for first, after in pairwise(cuts)]


def _piece_of_files(
    upstream: Upstream,
    origin: Stream,
    extent: Extent,
    files: Sequence[DataFile],
    first: int,
    last: int,
    is_first: bool,
) -> Work:
    return _work(
        upstream,
        extent,
        first,
        last,
        files=tuple(
            FileRange(str(origin.copying.table_directory / f.path), f.base_seq, f.first_seq, f.last_seq)
            for f in files
            if f.first_seq <= last and f.last_seq >= first
        ),
        removed=origin.copying.removed_between(first, last),
        expected=None if is_first else CursorAt(extent.identity)(first - 1),
    )


def plan_remote(upstream: Upstream, origin: NatsOrigin, extent: Extent, start_seq: int) -> Work:
    """Return the next piece of work on a stream that is read through its API."""
    return _work(upstream, extent, start_seq, extent.last_seq, origin=origin)


def _work(
    upstream: Upstream,
    extent: Extent,
    start_seq: int,
    stop_seq: int,
    *,
    files: tuple[FileRange, ...] = (),
    removed: bytes = b"",
    tail: bytes = b"",
    origin: NatsOrigin | None = None,
    expected: bytes | None = None,
) -> Work:
    target = upstream.target
    transform = target.config.subject_transform
    return Work(
        id=unique_id(),
        target=target.name,
        upstream=upstream.id,
        expected=target.copying.cursor(upstream.id) if expected is None else expected,
        start_seq=start_seq,
        stop_seq=stop_seq,
        files=files,
        removed=removed,
        tail=tail,
        origin=origin,
        mirrored=upstream.mirrored,
        filters=() if upstream.transforms else upstream.filters,
        transforms=upstream.transforms,
        stream_transform=(transform.src, transform.dest) if transform else None,
        source_header=upstream.source_header(extent.identity),
        staging=str(target.directory / "staging"),
        adoptive=target.copying.is_adoptive,
    )
