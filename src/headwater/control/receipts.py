"""How a receipt enters its target: whole as a file, or message by message, each part with its cursor."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

from headwater.errors import api_error
from headwater.model.columns import Columns
from headwater.replication.planner import CursorAt
from headwater.replication.upstream import Upstream
from headwater.replication.work import Receipt
from headwater.table.staged import read_staged
from headwater.wire import column_bytes

_NOTHING = column_bytes.empty()


async def take(upstream: Upstream, receipt: Receipt, cursor_at: CursorAt) -> int:
    """Take the messages of a receipt in, a part at a time; each part moves the cursor."""
    if receipt.adopted is not None and upstream.target.copying.is_adoptive:
        cursor = cursor_at(receipt.through)
        return await upstream.target.copying.adopt(
            upstream.id, receipt.expected, receipt.adopted, cursor, mirrored=upstream.mirrored
        )
    expected, taken = receipt.expected, 0
    parts = _parts(receipt)
    while (part := await asyncio.to_thread(next, parts, None)) is not None:
        columns, through = part
        count = await upstream.target.copying.take(
            upstream.id, expected, columns, cursor_at, through, mirrored=upstream.mirrored
        )
        taken += count
        expected = upstream.target.copying.cursor(upstream.id)
        if expected != cursor_at(through):
            raise api_error("stream_store_failed", err="the stream is full and takes no new messages")
    return taken


def _parts(receipt: Receipt) -> Iterator[tuple[Columns, int]]:
    """Yield the messages of a receipt, each time with the origin's sequence that is covered then."""
    if not receipt.path:
        yield column_bytes.decode(receipt.data) if receipt.data else _NOTHING, receipt.through
        return
    for columns in read_staged(Path(receipt.path)):
        yield columns, int(columns.seqs[-1])
    yield _NOTHING, receipt.through
