"""`df.write.format("headwater")` and `writeStream.format("headwater")`: a DataFrame into a stream.

1. Each task sends its rows to the engine as a part, under a name that no other attempt has.
2. The driver asks the engine to store the parts of the successful attempts as one change, once for each query
   and batch.

A query that is restarted commits its last batch again, and the engine answers that it has it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from headwater.errors import SettingsError
from headwater.spark.bulk_client import COMMIT_S, bulk_client
from headwater.spark.message_rows import MessageRows, check_columns
from headwater.spark.row_publisher import RowPublisher
from headwater.spark.writing import SinkMode, Writing

QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"
"""The properties of a task of a streaming query that name the query and the batch."""


@dataclass
class PartWritten(WriterCommitMessage):
    """What a task has written."""

    part: str
    """Empty if there is nothing to commit."""
    messages: int
    query: str = ""
    """The id of the streaming query."""


class BatchWriter(DataSourceArrowWriter):
    """Writes a DataFrame once."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartWritten:
        """Send the rows of one task."""
        writing = self._writing
        query, batch = writing.query or writing.job, writing.batch
        return _write(writing, writing.job, f"{query}:{batch}", iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Store the parts of all tasks."""
        writing = self._writing
        query = writing.query or writing.job
        _commit(writing, writing.job, query, writing.batch, _parts(messages), once=not writing.query)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Forget the parts of all tasks."""
        _abort(self._writing, self._writing.job)


class BatchesWriter(DataSourceStreamArrowWriter):
    """Writes each batch of a streaming query once."""

    def __init__(self, writing: Writing) -> None:
        self._writing = writing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> PartWritten:
        """Send the rows of one task of a batch."""
        query, batch = _property(QUERY_ID), _property(BATCH_ID)
        name = f"{query}:{batch}"
        written = _write(self._writing, name, name, iterator)
        return PartWritten(written.part, written.messages, query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Store the parts of all tasks of a batch, unless the stream has the batch."""
        parts = _parts(messages)
        if parts:
            query = parts[0].query
            _commit(self._writing, f"{query}:{batchId}", query, batchId, parts, once=False)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Forget the parts of all tasks of a batch."""
        parts = _parts(messages)
        if parts:
            _abort(self._writing, f"{parts[0].query}:{batchId}")


def checked(schema: StructType, options: Mapping[str, str]) -> Writing:
    """Return the write of a DataFrame with this schema; raise if it cannot be written."""
    check_columns(schema.names, [field.dataType.simpleString() for field in schema.fields])
    return Writing.of(options).settled()


def _property(name: str) -> str:
    context = TaskContext.get()
    value = context.getLocalProperty(name) if context is not None else None
    if not value:
        raise SettingsError(f"Spark gives the tasks of the query no {name}")
    return value


def _write(writing: Writing, write: str, ids: str, batches: Iterator[pa.RecordBatch]) -> PartWritten:
    context = TaskContext.get()
    partition = context.partitionId() if context is not None else 0
    name = f"{partition:06d}.{uuid4().hex}"
    with bulk_client(writing.origin) as client:
        if writing.mode is SinkMode.PUBLISH:
            publisher = RowPublisher(client.client, writing.origin.stream, f"{ids}:{partition}")
            for batch in batches:
                publisher.append(MessageRows(batch))
            return PartWritten("", publisher.finish())
        part = client.part(write, name)
        for batch in batches:
            for rows in MessageRows(batch).chunks(client.chunk_bytes):
                part.append(rows)
        count = part.finish()
        return PartWritten(name if count else "", count)


def _parts(messages: list[WriterCommitMessage | None]) -> list[PartWritten]:
    """Return what tasks have written, in the order of the partitions."""
    parts = [each for each in messages if isinstance(each, PartWritten) and each.part]
    return sorted(parts, key=lambda each: each.part)


def _commit(
    writing: Writing, write: str, query: str, batch: int, parts: list[PartWritten], *, once: bool
) -> None:
    if not parts:
        return
    count = sum(part.messages for part in parts)
    with bulk_client(writing.origin, patient_s=COMMIT_S) as client:
        names = [part.part for part in parts]
        client.commit(write, query, batch, names, count, once=once, created=writing.created)


def _abort(writing: Writing, write: str) -> None:
    if writing.mode is SinkMode.ENGINE:
        with bulk_client(writing.origin) as client:
            client.abort(write)
