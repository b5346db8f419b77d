"""Dead letters of row pipelines: stored exactly once, and before the target moves past them.

The stream of dead letters keeps a cursor for each target and upstream. Dead letters are stored with it first,
then the target's own cursor moves. After a crash in between, the same range is copied again, and the dead
letters up to that cursor are dropped.
"""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b

import numpy as np

from headwater.control.domain import Domain
from headwater.errors import Error
from headwater.model.columns import Columns, keep
from headwater.model.cursor import Cursor
from headwater.model.row_pipeline import RowPipeline
from headwater.replication.work import Receipt
from headwater.replication.worker.dead_letter import with_error
from headwater.stream.publishing.offered import OfferedRun
from headwater.stream.replica.importer import CursorMovedError
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.upstreams.planner import CursorAt
from headwater.upstreams.receipts import parts_of
from headwater.upstreams.staging import remove_staged
from headwater.upstreams.upstream import Upstream


class DeadLetterError(Error):
    """Dead letters cannot be stored; their range is copied again later."""

    retryable = True


class DeadLetterBox:
    """Stores dead letters in the streams that pipelines name."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain

    async def put(self, upstream: Upstream, receipt: Receipt, identity: str) -> int:
        """Return how many dead letters of a receipt were stored, once they are durable."""
        if receipt.dead is None:
            return 0
        if upstream.target.replica.cursor(upstream.id) != receipt.expected:
            # Storing them would have the dead letters of an earlier range dropped.
            raise CursorMovedError(f"the cursor of {upstream.id!r} has moved on")
        box = self._stream(upstream, receipt.dead.target)
        name, owner = cursor_name(upstream), owner_of(upstream, identity)
        known = Cursor.decode(box.replica.cursor(name))
        floor = known.seq if known.identity == owner else 0
        taken = 0
        parts = parts_of(receipt.dead, box.replica.staging)
        while (part := await on_thread(next, parts, None)) is not None:
            columns, through = part
            letters = explained(keep(columns, columns.seqs > floor), receipt.errors)
            cursor_at = CursorAt(owner)
            expected = box.replica.cursor(name)
            through = max(through, floor)
            taken += await box.replica.take(name, expected, letters, cursor_at, through, mirrored=False)
            if box.replica.cursor(name) != cursor_at(through):
                raise DeadLetterError(f"dead letters: stream {box.name}: {box.replica.refusal().description}")
        await box.replica.durable()
        return taken

    async def forget(self, upstream: Upstream, receipt: Receipt) -> None:
        """Remove the files that a task staged for dead letters."""
        if receipt.dead is None or not receipt.dead.path:
            return
        stream = self._domain.find(receipt.dead.target)
        if stream is not None and is_box(upstream.pipeline, stream.name):
            await remove_staged(stream, (receipt.dead.path,))

    def _stream(self, upstream: Upstream, name: str) -> Stream:
        if not is_box(upstream.pipeline, name):
            raise CursorMovedError("the pipeline has another stream of dead letters now")
        stream = self._domain.find(name)
        if stream is None:
            raise DeadLetterError(missing_text(name))
        return stream


def is_box(pipeline: RowPipeline | None, name: str) -> bool:
    """Return whether a pipeline's dead letters go to this stream."""
    return pipeline is not None and pipeline.dead_letters == name


def missing_text(name: str) -> str:
    """Return what to do about a missing stream of dead letters."""
    return f"the stream of dead letters {name} does not exist or is offline: create it"


def stop_text(stopped: str) -> str:
    """Return what to do about a message that a pipeline without dead letters failed on."""
    return f"{stopped}; change the pipeline, or give it a stream of dead letters (--dead-letters)"


def cursor_name(upstream: Upstream) -> str:
    """Return the name of an upstream's cursor in its stream of dead letters."""
    return f"{upstream.target.name}\n{upstream.id}\ndead"


def owner_of(upstream: Upstream, identity: str) -> str:
    """Return what dead letters are counted for: one target, one origin, and one SQL.

    If any of them is replaced, other messages may fail in the same range, and none may be dropped.
    """
    pipeline = upstream.pipeline
    sql = f"{pipeline.where}\0{pipeline.select}" if pipeline is not None else ""
    digest = blake2b(sql.encode(), digest_size=6).hexdigest()
    return f"{upstream.target.identity} {identity} {digest}"


def explained(letters: Columns, errors: dict[int, str]) -> Columns:
    """Return dead letters with Spark's errors in their headers."""
    run = OfferedRun.of(letters)
    example = errors.get(0, "")
    other = f"the SQL fails, as for another message: {example}" if example else "the SQL fails"
    blocks = [
        with_error(block, errors.get(seq, other))
        for seq, block in zip(run.seq_list, run.headers, strict=True)
    ]
    lengths = np.fromiter(map(len, blocks), np.uint32, len(blocks))
    return replace(letters, header_lengths=lengths, headers=b"".join(blocks))
