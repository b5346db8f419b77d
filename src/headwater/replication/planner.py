"""Which range of an origin is copied next, and what a transfer task needs for it."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.model.cursor import Cursor
from headwater.model.unique import unique_id
from headwater.replication.upstream import Upstream
from headwater.replication.work import FileRange, NatsOrigin, Work
from headwater.stream.stream import Stream

WORK_BYTES = 256 << 20
"""About how much of an origin one piece of work reads, so that a long catch-up shows progress."""
TAIL_BYTES = 192 << 10


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


async def plan_local(upstream: Upstream, origin: Stream, extent: Extent, start_seq: int) -> Work | None:
    """Return the next piece of work on a stream of the same engine: its files first, then its head."""
    files = origin.files_from(start_seq, WORK_BYTES)
    if files:
        stop_seq = min(files[-1].last_seq, extent.last_seq)
        return _work(
            upstream,
            extent,
            start_seq,
            stop_seq,
            files=tuple(
                FileRange(str(origin.table_directory / f.path), f.base_seq, f.first_seq, f.last_seq)
                for f in files
            ),
            removed=origin.removed_between(start_seq, stop_seq),
        )
    tail, stop_seq = await origin.tail_from(start_seq, TAIL_BYTES)
    if stop_seq < start_seq:
        return None
    return _work(upstream, extent, start_seq, stop_seq, tail=tail)


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
) -> Work:
    target = upstream.target
    transform = target.config.subject_transform
    return Work(
        id=unique_id(),
        target=target.name,
        upstream=upstream.id,
        expected=target.cursor(upstream.id),
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
        adoptive=target.is_adoptive,
    )
