"""Planning: which range of an origin is copied next, and what a transfer task needs for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile, zip_longest

import msgspec
import numpy as np

from headwater.model.columns import Columns
from headwater.model.copied import fits_in_path
from headwater.model.cursor import Cursor
from headwater.model.gaps import RETENTION
from headwater.model.unique import unique_id
from headwater.replication import handover
from headwater.replication.work import (
    LEAST_LINKED_BYTES,
    FileRange,
    NatsOrigin,
    TablesPlace,
    Work,
    exchangeable,
)
from headwater.stream.stream import Stream
from headwater.table.datafile import DataFile
from headwater.table.parquet import MAX_GROUP_ROWS
from headwater.upstreams.upstream import Upstream

SLOT_BYTES = 512 << 20
"""About how many bytes one plan has each slot read, so that a long catch-up shows progress."""
SLOT_PIECES = 8
"""The number of pieces per slot, so that all slots finish at about the same time."""
PIECE_BYTES = 64 << 20
"""The least bytes that a task reads before its work is split."""
TAIL_BYTES = 192 << 10
"""The most bytes of an origin's log that are sent inside a plan."""
LINK_FILES = 256
"""How many files one range may hard-link."""
SUMMED_SUBJECTS = 1_000
"""Files of an origin with up to this many subjects have per-subject sums; others may have to be read."""
ASKED_LEAST = 2_000
ASKED_LEAST_BYTES = 1 << 20
"""The least messages and bytes that are requested from a remote origin, whatever its speed."""
ROUND_S = 6.0
"""How long copying a range should take, estimated from the previous speed."""
REMOVED_SPAN = 1 << 20
"""The most sequences over which a range lists removed sequences, if there are any."""


@dataclass(frozen=True, slots=True)
class OriginRange:
    """An origin's identity, its first and last sequence, and why it removes messages."""

    identity: str
    first_seq: int
    last_seq: int
    takes_out: str = RETENTION
    """Why uncopied messages leave it, for the record of gaps; empty if that is intended."""
    retention: str = "limits"
    last_ts: int = 0
    """The time of its last message; 0 if unknown."""


@dataclass(frozen=True, slots=True)
class CursorAt:
    """Creates cursors for one origin, with the time of the last copied message if it is known."""

    identity: str
    through: int = 0
    ts: int = 0
    """The latest time of all messages up to `through`; 0 if unknown."""
    part: Columns | None = None
    """The messages that are being committed."""
    before_ts: int = 0
    """The latest time of the messages before them."""

    def __call__(self, seq: int) -> bytes:
        """Return the cursor for everything copied up to a sequence."""
        return Cursor(self.identity, seq, self._latest(seq) if self.ts else 0).encode()

    def with_part(self, part: Columns) -> CursorAt:
        """Return the same for the next part of the messages."""
        before_ts = self._latest(int(self.part.seqs[-1])) if self.part is not None and len(self.part) else 0
        return replace(self, part=part, before_ts=max(before_ts, self.before_ts))

    def _latest(self, seq: int) -> int:
        if seq >= self.through or self.part is None:
            return self.ts
        count = int(np.searchsorted(self.part.seqs, seq, side="right"))
        return max(self.before_ts, int(self.part.ts[:count].max()) if count else 0)


async def plan_local(
    upstream: Upstream,
    origin: Stream,
    extent: OriginRange,
    start_seq: int,
    slots: int = 2,
    now_ns: int = 0,
    task_bytes: int = 0,
) -> list[Work]:
    """Return the next ranges of a stream of the same engine: its files first, then its head.

    The ranges are consecutive, and each expects the cursor that the previous one leaves. If files must be
    read, the plan takes as much as was copied within a few seconds before, so that a slow disk shows
    progress, too.
    """
    if _has_passed(upstream, extent, start_seq):
        return []
    links = _links(upstream, origin, extent)
    goal = int(upstream.pace.seqs.at(now_ns) * ROUND_S)
    if links and (whole := _whole_files(upstream, origin, extent, start_seq, slots * SLOT_BYTES, goal)):
        return exchangeable(_linking(upstream, origin, extent, start_seq, whole))
    files = origin.replica.files_from(start_seq, slots * SLOT_BYTES)
    if links:
        files = files[:1] + list(
            takewhile(lambda file: not _is_whole(upstream, origin, file, start_seq), files[1:])
        )
    if goal:
        files = files[:1] + [file for file in files[1:] if file.last_seq - start_seq < goal]
    if files:
        stop_seq = min(files[-1].last_seq, extent.last_seq)
        cut = pieces(start_seq, stop_seq, files, slots, task_bytes)
        if upstream.pipeline is not None:
            # SQL is slower than the copies that `task_bytes` was measured with. One piece of the least size
            # per slot, so that commits are not far apart.
            cut = pieces(start_seq, stop_seq, files, slots)[:slots]
        return exchangeable(
            _piece_of_files(upstream, origin, extent, files, first, last, is_first=first == start_seq)
            for first, last in cut
        )
    if origin.replica.folds_first(start_seq):
        return []
    tail, stop_seq = await origin.replica.tail_from(start_seq, TAIL_BYTES)
    if stop_seq < start_seq or _has_passed(upstream, extent, start_seq):
        return []
    return [_work(upstream, extent, start_seq, stop_seq, tail=tail)]


def beginning_at(works: Sequence[Work], first_seq: int, expected: bytes) -> list[Work]:
    """Return what is left of consecutive ranges from a sequence on, for a target with this cursor."""
    left = [work for work in works if work.stop_seq >= first_seq]
    if not left:
        return []
    begun = msgspec.structs.replace(left[0], start_seq=max(left[0].start_seq, first_seq), expected=expected)
    return [begun, *left[1:]]


def _has_passed(upstream: Upstream, extent: OriginRange, start_seq: int) -> bool:
    """Return whether the cursor has moved past the start since the start was looked up.

    A revoked range may still be committed. A range expects the current cursor, so an outdated start would
    copy messages a second time.
    """
    cursor = upstream.cursor
    return cursor.identity == extent.identity and cursor.seq >= start_seq


def _whole_files(
    upstream: Upstream, origin: Stream, extent: OriginRange, start_seq: int, max_bytes: int, goal: int
) -> list[DataFile]:
    """Return the next files that the target may hard-link, as many as may be read if linking fails."""
    chosen: list[DataFile] = []
    read_bytes = 0
    for file in origin.replica.files_from(start_seq, 1 << 62)[:LINK_FILES]:
        has_gaps = file.rows != file.last_seq - file.first_seq + 1
        far = file.last_seq - start_seq > REMOVED_SPAN
        # The origin may have added files since its range was read.
        if file.last_seq > extent.last_seq or (has_gaps and far):
            break
        if not _is_whole(upstream, origin, file, start_seq):
            break
        read_bytes += _bytes_maybe_read(origin, file)
        is_much = read_bytes > max_bytes or (goal and read_bytes and file.last_seq - start_seq >= goal)
        if chosen and is_much:
            break
        chosen.append(file)
    return chosen


def _bytes_maybe_read(origin: Stream, file: DataFile) -> int:
    """Return how many bytes of a file are read if it has no sums, or headers that a copy must omit."""
    is_plain = file.headerless_rows == file.rows and origin.replica.subject_count <= SUMMED_SUBJECTS
    return 0 if is_plain else file.size_bytes


def _linking(
    upstream: Upstream, origin: Stream, extent: OriginRange, start_seq: int, files: Sequence[DataFile]
) -> Iterator[Work]:
    """Yield ranges of whole files, split so that the files that may have to be read are shared.

    If the target must see message ids, one file that has some makes its whole range be read.
    """
    part: list[DataFile] = []
    first = start_seq
    parts_by_headers = not upstream.target.replica.is_adoptive
    for file, following in zip_longest(files, files[1:]):
        part.append(file)
        read_bytes = sum(_bytes_maybe_read(origin, each) for each in part)
        is_apart = parts_by_headers and following and _has_headers(file) != _has_headers(following)
        if read_bytes >= PIECE_BYTES or is_apart or following is None:
            last, is_first = file.last_seq, first == start_seq
            work = _piece_of_files(upstream, origin, extent, part, first, last, is_first=is_first)
            yield msgspec.structs.replace(work, read_bytes=read_bytes)
            first, part = last + 1, []


def _has_headers(file: DataFile) -> bool:
    """Return whether a message of a file may have headers, and therefore an id."""
    return file.headerless_rows != file.rows


def _links(upstream: Upstream, origin: Stream, extent: OriginRange) -> bool:
    """Return whether the target may have files of the origin, by hard links or server-side copies."""
    if upstream.filters or upstream.pipeline is not None or not is_linkable(origin, upstream.target):
        return False
    header = upstream.source_header(extent.identity)
    return header is None or (upstream.target.replica.records_sources and fits_in_path(header))


def _is_whole(upstream: Upstream, origin: Stream, file: DataFile, start_seq: int) -> bool:
    """Return whether every message of a file is still to be copied, and the target may link the file."""
    span = file.last_seq - file.first_seq + 1
    if upstream.mirrored:
        may_have = file.copied is None or upstream.target.replica.records_sources
    else:
        # A source's messages are consecutive. Small files are merged with their neighbours instead.
        may_have = file.rows == span and file.size_bytes >= LEAST_LINKED_BYTES
    gone = origin.replica.removed_count(file.first_seq, file.last_seq)
    return may_have and file.first_seq >= start_seq and gone == span - file.rows


def is_linkable(origin: Stream, target: Stream) -> bool:
    """Return whether unchanged files of the origin can be files of the target."""
    config = target.config
    return (
        target.replica.is_adoptive_without_ids
        and config.subject_transform is None
        and target.replica.compression == origin.replica.compression
        and origin.replica.volume == target.replica.volume
    )


def pieces(
    start_seq: int, stop_seq: int, files: Sequence[DataFile], slots: int, task_bytes: int = 0
) -> list[tuple[int, int]]:
    """Return a range cut into pieces, each with at least some megabytes to read.

    Each piece has a fixed cost. If all of it fits in about one task per slot, plan one piece per slot.
    Otherwise each slot's first piece is as long as a task may be, and whichever slot is free takes the rest.
    Cuts are where row groups most often begin, so that few row groups are read twice.
    """
    most = slots * SLOT_PIECES
    size_bytes = sum(file.size_bytes for file in files)
    least = max(PIECE_BYTES, size_bytes // most)
    share = -(-size_bytes // slots)
    first = max(least, share if share <= task_bytes * 3 // 2 else task_bytes)
    cuts, held = [start_seq], 0.0
    for file in files:
        size = file.size_bytes / (file.last_seq - file.first_seq + 1)
        for seq in range(file.first_seq, file.last_seq + 1, MAX_GROUP_ROWS):
            goal = first if len(cuts) <= slots else least
            if held >= goal and cuts[-1] < seq <= stop_seq and len(cuts) < most:
                cuts.append(seq)
                held = 0
            held += size * (min(seq + MAX_GROUP_ROWS - 1, file.last_seq) - seq + 1)
    return [(begin, after - 1) for begin, after in pairwise([*cuts, stop_seq + 1])]


def _piece_of_files(
    upstream: Upstream,
    origin: Stream,
    extent: OriginRange,
    files: Sequence[DataFile],
    first: int,
    last: int,
    *,
    is_first: bool,
) -> Work:
    touched = [file for file in files if file.first_seq <= last and file.last_seq >= first]
    return _work(
        upstream,
        extent,
        first,
        last,
        files=tuple(
            FileRange(
                origin.replica.address_of(f),
                f.base_seq,
                f.first_seq,
                f.last_seq,
                f.copied,
                not _has_headers(f),
            )
            for f in touched
        ),
        read_bytes=sum(_share(file, first, last) for file in touched),
        removed=origin.replica.removed_between(first, last),
        expected=None if is_first else CursorAt(extent.identity)(first - 1),
        linkable=is_linkable(origin, upstream.target),
    )


def _tables_place(target: Stream) -> TablesPlace | None:
    """Return the bucket that a task opens to read an origin's files or to write a target's."""
    tables = target.replica.tables
    if tables is None or tables.address.is_local:
        return None
    address = tables.address
    config = str(tables.store / handover.NAME)
    return TablesPlace(
        url=address.url, endpoint=address.endpoint or "", region=address.region or "", config=config
    )


def _share(file: DataFile, first: int, last: int) -> int:
    """Return about how many bytes of a file are in a range."""
    within = min(file.last_seq, last) - max(file.first_seq, first) + 1
    return file.size_bytes * within // (file.last_seq - file.first_seq + 1)


def plan_remote(
    upstream: Upstream, origin: NatsOrigin, extent: OriginRange, start_seq: int, now_ns: int
) -> list[Work]:
    """Return the next range of a stream that is read through its API, from the first to the last sequence.

    Reading several ranges of one stream at once was slower: nats-server reads a stream fastest in its order.

    The range has as many messages as arrived within a few seconds before, so that a slow link shows progress,
    too. The first range is small, to measure the speed.
    """
    if _has_passed(upstream, extent, start_seq):
        return []
    pace, cursor = upstream.pace, upstream.cursor
    goal = int(pace.seqs.at(now_ns) * ROUND_S)
    size = int(pace.size.at(now_ns) * ROUND_S)
    bounded = msgspec.structs.replace(
        origin,
        max_messages=min(max(goal, ASKED_LEAST), origin.max_messages),
        max_bytes=min(max(size, ASKED_LEAST_BYTES), origin.max_bytes),
        covered_seq=cursor.seq,
        covered_ts=cursor.ts,
        stop_ts=extent.last_ts,
    )
    return [_work(upstream, extent, start_seq, extent.last_seq, origin=bounded)]


def _work(
    upstream: Upstream,
    extent: OriginRange,
    start_seq: int,
    stop_seq: int,
    *,
    files: tuple[FileRange, ...] = (),
    read_bytes: int = 0,
    removed: bytes = b"",
    tail: bytes = b"",
    origin: NatsOrigin | None = None,
    expected: bytes | None = None,
    linkable: bool = False,
) -> Work:
    target = upstream.target
    transform = target.config.subject_transform
    return Work(
        id=unique_id(),
        target=target.name,
        upstream=upstream.id,
        expected=target.replica.cursor(upstream.id) if expected is None else expected,
        start_seq=start_seq,
        stop_seq=stop_seq,
        files=files,
        read_bytes=read_bytes,
        removed=removed,
        tail=tail,
        origin=origin,
        mirrored=upstream.mirrored,
        filters=() if upstream.transforms else upstream.filters,
        transforms=upstream.transforms,
        stream_transform=(transform.src, transform.dest) if transform else None,
        source_header=upstream.source_header(extent.identity),
        staging=target.replica.staging.address,
        tables=_tables_place(target),
        compression=target.replica.compression,
        linkable=linkable,
        traceable=target.replica.records_sources,
        adoptive=target.replica.is_adoptive,
        adoptive_without_ids=target.replica.is_adoptive_without_ids,
    )
