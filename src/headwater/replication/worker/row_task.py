"""The two Python ends of a pipeline's task: one reads a range for Spark, the other writes Spark's results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain

import msgspec
import pyarrow as pa

from headwater.disk import UMASK
from headwater.replication.work import Receipt, Work
from headwater.replication.worker.row_reader import RowEnd, RowReader, decode_end
from headwater.replication.worker.row_writer import RowSample, RowWriter
from headwater.replication.worker.transfer import failed, prepare_worker, reason_of

WRITTEN = "work INT, receipt BINARY, samples BINARY"
"""What the writing end returns, as Spark's DDL."""
_WRITTEN = pa.schema([("work", pa.int32()), ("receipt", pa.binary()), ("samples", pa.binary())])
_encode = msgspec.msgpack.Encoder().encode
_decode_work = msgspec.msgpack.Decoder(Work).decode


def read(
    works: list[bytes], wants_headers: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the messages of the ranges whose numbers are in the batches."""
    prepare_worker()
    for batch in batches:
        for index in batch.column(0).to_pylist():
            yield from RowReader(_decode_work(works[index]), wants_headers=wants_headers)


def write(
    works: list[bytes], columns: tuple[str, ...], makes_several: bool, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the receipt of the range whose results are in the batches."""
    os.umask(UMASK)
    prepare_worker()
    for first in batches:
        if not first.num_rows:
            continue
        index = first.column("__work")[0].as_py()
        work = _decode_work(works[index])
        receipt, samples = _written(work, columns, makes_several, chain((first,), batches))
        row = {"work": index, "receipt": _encode(receipt), "samples": _encode(samples)}
        yield pa.RecordBatch.from_pylist([row], _WRITTEN)


def _written(
    work: Work, columns: tuple[str, ...], makes_several: bool, batches: Iterator[pa.RecordBatch]
) -> tuple[Receipt, list[RowSample]]:
    """Return the receipt of a range, whose last row says how reading it ended."""
    end: RowEnd | None = None
    try:
        with RowWriter(work, columns, makes_several=makes_several) as writer:
            for batch in batches:
                end = _appended(writer, batch) or end
            if end is None or end.error:
                return failed(work, end.error if end else "the range has no end"), []
            return writer.receipt(end), writer.samples
    except Exception as error:  # an exception in a task would fail the whole job
        for _ in batches:
            pass  # Spark would wait for a task that does not read
        return failed(work, reason_of(error)), []


def _appended(writer: RowWriter, batch: pa.RecordBatch) -> RowEnd | None:
    """Add a batch; return the end if the batch has it."""
    if not batch.num_rows:
        return None
    last = batch.column("__end")[batch.num_rows - 1].as_py()
    writer.append(batch if last is None else batch.slice(0, batch.num_rows - 1))
    return None if last is None else decode_end(last)
