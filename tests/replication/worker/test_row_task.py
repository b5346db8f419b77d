"""The two ends of a pipeline's task, without Spark in between."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pyarrow as pa

from headwater.replication.work import Receipt, Work, WorkPipeline
from headwater.replication.worker.row_task import read, write
from replication.works import brought, tail_of, work_of
from table.samples import message


def passed(batches: Iterator[pa.RecordBatch], work: int) -> Iterator[pa.RecordBatch]:
    """Do what Spark does with a plan that changes nothing."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table.append_column("__work", pa.array([work] * batch.num_rows, pa.int32()))
        yield from table.append_column("__fault", pa.nulls(batch.num_rows, pa.int32())).to_batches()


def receipts(*works: Work) -> list[Receipt]:
    encoded = [msgspec.msgpack.encode(work) for work in works]
    found = []
    for index in range(len(works)):
        numbers = iter([pa.record_batch({"id": pa.array([index])})])
        (answer,) = write(encoded, (), False, passed(read(encoded, False, numbers), index))
        assert answer.column("work").to_pylist() == [index]
        found.append(msgspec.msgpack.decode(answer.column("receipt")[0].as_py(), type=Receipt))
    return found


def test_what_is_read_is_written_and_a_range_without_messages_has_a_receipt() -> None:
    messages = [message(seq) for seq in range(1, 50)]
    pipeline = WorkPipeline(where="true")
    full, empty = receipts(
        work_of(id="a", stop_seq=49, tail=tail_of(messages), pipeline=pipeline),
        work_of(id="b", stop_seq=7, pipeline=pipeline),
    )
    assert brought(full) == messages
    assert (full.read, empty.rows, empty.through) == (49, 0, 7)


def test_a_range_that_cannot_be_written_has_the_reason() -> None:
    work = work_of(stop_seq=9, tail=tail_of([message(1)]), staging="/dev/null/x")
    (receipt,) = receipts(msgspec.structs.replace(work, pipeline=None))
    assert receipt.error
