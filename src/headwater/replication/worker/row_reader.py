"""Reads a range for a pipeline: its messages as record batches, and a last row that says how it ended."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from headwater.model import headers as header_block
from headwater.replication.work import Work
from headwater.replication.worker.rewrite import Rewrite
from headwater.replication.worker.task_bucket import open_bucket
from headwater.replication.worker.transfer import (
    OriginFile,
    between,
    live_rows,
    origin_files,
    origin_reader,
    reason_of,
    wanted_groups,
)
from headwater.table.arrow_tables import rows_of
from headwater.table.rows import Rows
from headwater.table.stored_group import StoredFile
from headwater.wire import column_bytes

BATCH_ROWS = 8_192
BATCH_BYTES = 16 << 20
"""The most messages and bytes of one record batch; a single message may be larger."""
HEADERS = pa.map_(pa.string(), pa.list_(pa.string()))
COLUMNS = pa.schema(
    [
        pa.field("__end", pa.binary()),
        pa.field("__seq", pa.int64()),
        pa.field("__ts", pa.int64()),
        pa.field("__origin", pa.string()),
        pa.field("__headers", pa.binary()),
        pa.field("subject", pa.string()),
        pa.field("headers", HEADERS),
        pa.field("payload", pa.binary()),
    ]
)
"""What a task yields to Spark: `__end` is null except in the last row, which has no message."""


class RowEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How the reading of a range ended."""

    through: int = 0
    ts: int = 0
    read: int = 0
    without_ids: bool = False
    settled: bytes = b""
    ack_key: str = ""
    error: str = ""


_encode = msgspec.msgpack.Encoder().encode
decode_end = msgspec.msgpack.Decoder(RowEnd).decode


class RowReader:
    """Yields the record batches of one range; a failure is in the last row and never raised."""

    def __init__(self, work: Work, *, wants_headers: bool) -> None:
        self._work = work
        self._wants_headers = wants_headers
        """Whether the SQL looks at headers, which must be parsed then."""
        plain = msgspec.structs.replace(work, stream_transform=None, source_header=None)
        self._rewrite = Rewrite(plain)
        self._read = 0
        """How many messages were yielded."""
        self._end = RowEnd(through=work.stop_seq)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        try:
            for rows in self._rows():
                for part in rows.cuts(BATCH_ROWS, BATCH_BYTES):
                    if len(part):
                        self._read += len(part)
                        yield self._batch(part)
            end = msgspec.structs.replace(self._end, read=self._read)
        except Exception as error:  # an exception in a task would fail the whole job
            end = RowEnd(error=reason_of(error))
        values = {"__end": _encode(end), "__seq": 0, "__ts": 0, "__origin": "", "subject": "", "payload": b""}
        yield pa.RecordBatch.from_pylist([values], COLUMNS)

    def _rows(self) -> Iterator[Rows]:
        """Yield the wanted messages with the subjects that they have in the origin."""
        work = self._work
        if (origin := origin_reader(work)) is not None:
            for rows in origin:
                yield rows.filter(self._rewrite.wanted(rows)) if len(rows) else rows
            self._end = RowEnd(
                through=origin.through,
                ts=origin.latest_ts,
                settled=bytes(origin.settled.serialize()) if origin.settled else b"",
                ack_key=origin.ack_key,
            )
            return
        sources = origin_files(open_bucket(work.tables), work.files)
        removed = BitMap64.deserialize(work.removed) if work.removed else BitMap64()
        for source in sources:
            yield from self._file(source, removed)
        if work.tail:
            rows = between(rows_of(column_bytes.decode(work.tail)), work)
            yield rows.filter(self._rewrite.wanted(rows)) if len(rows) else rows
        without_ids = bool(sources) and not work.tail and all(each.proves_no_ids for each in sources)
        self._end = RowEnd(through=work.stop_seq, without_ids=without_ids)

    def _file(self, source: OriginFile, removed: BitMap64) -> Iterator[Rows]:
        work, file, sums = self._work, source.file, source.sums
        if sums is not None and not self._rewrite.wants_any(sums.subjects.keys()):
            return
        with StoredFile(source.opened, source.footer, file.base_seq, sums, file.copied) as stored:
            for group in stored.groups(wanted_groups(work, file, source.footer, removed)):
                yield live_rows(work, group, removed, self._rewrite, timed=True, splices=lambda _: False)

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        """Return messages with the columns that SQL sees, and those that their results need."""
        count = len(rows)
        made = self._rewrite.made(rows)
        headers = pa.nulls(count, HEADERS)
        if self._wants_headers and made.headers.null_count < count:
            headers = pa.array([header_block.text_pairs(raw) for raw in made.headers.to_pylist()], HEADERS)
        arrays = [
            pa.nulls(count, pa.binary()),
            pa.array(np.ascontiguousarray(rows.seqs)),
            pa.array(np.ascontiguousarray(rows.ts)),
            rows.subjects.dictionary_decode(),
            made.headers,
            made.subjects.dictionary_decode(),
            headers,
            rows.data_array(),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=COLUMNS)
