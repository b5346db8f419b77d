"""How a receipt enters its target: as a whole file, or as messages in parts, each part with its cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec
import numpy as np

from headwater.errors import Error
from headwater.model.adopted import Adopted
from headwater.model.columns import Columns, Int64s, concat, keep
from headwater.replication.work import Receipt, decode_adopted
from headwater.stream.copied_cursors import said_by
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.replica.importer import CursorMovedError
from headwater.table.staged import read_staged
from headwater.table.staging import Staging
from headwater.threads import on_thread
from headwater.upstreams.planner import CursorAt
from headwater.upstreams.staging import (
    StagedFileError,
    check_adopted,
    open_staged,
    read_whole,
    remove_staged,
)
from headwater.upstreams.upstream import Upstream
from headwater.wire import column_bytes

MOST_SUBJECTS = 50_000
"""The most subjects in one batch of the log."""
_NOTHING = column_bytes.empty()


def runs(receipts: Sequence[Receipt], identities: Mapping[str, str]) -> Iterator[list[Receipt]]:
    """Yield receipts in runs that are committed as one change: files, each following the previous one."""
    run: list[Receipt] = []
    for receipt in receipts:
        if run and not _follows(receipt, run, identities):
            yield run
            run = []
        run.append(receipt)
    if run:
        yield run


def _follows(receipt: Receipt, run: Sequence[Receipt], identities: Mapping[str, str]) -> bool:
    before = run[-1]
    return (
        bool(receipt.adopted and before.adopted)
        and (receipt.target, receipt.upstream) == (before.target, before.upstream)
        and sum(len(file.subjects) for each in run for file in each.adopted) < MOST_SUBJECTS
        and before.work in identities
        # Dead letters are stored first, and the end of a stopped range is shown.
        and not (receipt.dead or before.dead or before.stopped)
        and receipt.work in identities
        and receipt.expected == CursorAt(identities[before.work], before.through, before.ts)(before.through)
    )


def joined(run: Sequence[Receipt]) -> Receipt:
    """Return the receipts of a run as one."""
    adopted = tuple(file for receipt in run for file in receipt.adopted)
    rows = sum(receipt.rows for receipt in run)
    return msgspec.structs.replace(
        run[0],
        adopted=adopted,
        rows=rows,
        through=run[-1].through,
        ts=run[-1].ts,
        read=sum(receipt.read for receipt in run) if run[0].read >= 0 else -1,
        stopped=run[-1].stopped,
        without_ids=all(receipt.without_ids for receipt in run),
    )


async def take(upstream: Upstream, receipt: Receipt, cursor_at: CursorAt) -> int:
    """Write the messages of a receipt to the target, part by part; each part moves the cursor."""
    if not receipt.rows and receipt.through <= upstream.durable_cursor.seq:
        return 0
    adopted = receipt.adopted
    staging = upstream.target.replica.staging
    if receipt.sums:
        adopted = decode_adopted(await on_thread(read_whole, staging, receipt.sums))
    if adopted:
        return await _adopt(upstream, receipt, adopted, cursor_at(receipt.through))
    expected, taken = receipt.expected, 0
    parts = parts_of(receipt, staging)
    while (part := await on_thread(next, parts, None)) is not None:
        columns, through = part
        cursor_at = cursor_at.with_part(columns)
        count = await upstream.target.replica.take(
            upstream.id, expected, columns, cursor_at, through, mirrored=upstream.mirrored
        )
        taken += count
        expected = upstream.target.replica.cursor(upstream.id)
        if expected != cursor_at(through):
            raise upstream.target.replica.refusal()
    return taken


async def _adopt(upstream: Upstream, receipt: Receipt, adopted: Sequence[Adopted], cursor: bytes) -> int:
    """Adopt whole files; refused files are removed, as no receipt will name them again."""
    replica = upstream.target.replica
    try:
        await on_thread(check_adopted, replica.staging, adopted)
        replica.require_open()
        if not (replica.is_adoptive or (receipt.without_ids and replica.is_adoptive_without_ids)):
            raise CursorMovedError("the stream cannot adopt files since its config was changed")
        replica.require_room(adopted)
    except Error:
        await remove_staged(upstream.target, [file.name for file in adopted])
        raise
    try:
        return await replica.adopt(upstream.id, receipt.expected, adopted, cursor, mirrored=upstream.mirrored)
    except CursorMovedError:
        # After any other error the log may still come to name them.
        await remove_staged(upstream.target, [file.name for file in adopted])
        raise


def parts_of(receipt: Receipt, staging: Staging) -> Iterator[tuple[Columns, int]]:
    """Yield the messages of a receipt in parts, each with the origin's sequence that it covers."""
    if not receipt.path:
        yield column_bytes.decode(receipt.data) if receipt.data else _NOTHING, receipt.through
        return
    held: Columns | None = None
    for columns in read_staged(open_staged(staging, receipt.path)[0]):
        if receipt.renumbered:
            columns = replace(columns, seqs=_origin_seqs(columns))
            columns, held = _whole_messages(columns if held is None else concat([held, columns]))
        if len(columns):
            yield columns, int(columns.seqs[-1])
    yield held if held is not None else _NOTHING, receipt.through


def _origin_seqs(columns: Columns) -> Int64s:
    """Return the origin's sequences, which are in the headers."""
    found = [said_by(block) for block in OfferedRun.of(columns).headers]
    if any(each is None for each in found):
        raise StagedFileError("a staged file has messages that do not say where they came from")
    return np.array([each[1].seq for each in found if each is not None], np.int64)


def _whole_messages(columns: Columns) -> tuple[Columns, Columns]:
    """Return the messages before the last one of the origin, and those that this one became.

    More of those may follow, and the cursor moves past all of them at once.
    """
    is_last = columns.seqs == columns.seqs[-1]
    return keep(columns, ~is_last), keep(columns, is_last)
