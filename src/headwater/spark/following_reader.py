"""Follows a stream in micro-batches of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headwater.errors import SettingsError
from headwater.replication.worker.origin import identity_of
from headwater.spark.offset import DataLossError, FollowOffset, StreamExtent, batch_bounds, next_seq
from headwater.spark.range_reader import read_batches
from headwater.spark.read_range import ReadRange
from headwater.spark.reading import Reading
from headwater.spark.selection import UNBOUNDED
from headwater.spark.stream_reader import RangePartition

DEFAULT_MESSAGES = 100_000


class FollowedPartition(RangePartition):
    """A range of the stream that was created at a time."""

    def __init__(self, part: ReadRange, created: str) -> None:
        super().__init__(part)
        self.created = created


class FollowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream in micro-batches; an offset is the last sequence read, with the stream's identity."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        if reading.selection.last_seq < UNBOUNDED or reading.selection.stop_ts < UNBOUNDED:
            raise SettingsError("options endSequence and endTime are for spark.read, not for readStream")
        assert reading.origin is not None
        self._reading = reading
        self._stream = reading.origin.stream
        self._names = names
        self._target: int | None = None
        """The last sequence when the query began, if it is to end there; else None."""

    def initialOffset(self) -> dict[str, Any]:
        """Return the offset at which a new query starts: before the first message that is selected."""
        extent, selection = self._reading.extent(), self._reading.selection
        first = max(selection.first_seq, extent.first_seq)
        if selection.first_ts > 0:
            first = self._reading.first_seq_at(selection.first_ts, first, extent.last_seq)
        return FollowOffset(first - 1, extent.created).value()

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the size limit of a micro-batch; a limit of bytes besides that of messages is ours."""
        messages, most = self._reading.max_messages, self._reading.max_bytes
        if messages is None and most is not None:
            return ReadMaxBytes(most)
        return ReadMaxRows(messages or DEFAULT_MESSAGES)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the current end of the stream."""
        self._target = self._reading.extent().last_seq

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """Return the end of the next micro-batch."""
        extent = self._reading.extent()
        first = next_seq(FollowOffset.of(start), extent, self._stream, may_skip=self._reading.may_skip)
        last = extent.last_seq if self._target is None else min(self._target, extent.last_seq)
        last = self._bounded(first, last, limit, extent)
        # A stream that a query is ahead of has nothing for it; offsets never move back.
        return FollowOffset(max(first - 1, last), extent.created).value()

    def reportLatestOffset(self) -> dict[str, Any]:
        """Return the stream's end, for Spark's own reports of lag."""
        extent = self._reading.extent()
        return FollowOffset(extent.last_seq, extent.created).value()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Return the partitions of a micro-batch."""
        extent = self._reading.extent()
        bounds = FollowOffset.of(start), FollowOffset.of(end)
        first, last = batch_bounds(*bounds, extent, self._stream, may_skip=self._reading.may_skip)
        ranges = self._reading.ranges(first, last) if first <= last else []
        return [FollowedPartition(part, extent.created) for part in ranges]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one partition's messages; raise if some were removed since it was planned."""
        if not isinstance(partition, FollowedPartition):
            return
        part, reading = partition.part, self._reading
        assert reading.origin is not None
        origin = msgspec.structs.replace(reading.origin, identity=identity_of(partition.created))
        first_read: int | None = None
        for batch in read_batches(part, origin, ["seq", *self._names], reading.selection):
            first_read = first_read or batch.column(0)[0].as_py()
            yield pa.RecordBatch.from_arrays(batch.columns[1:], schema=pa.schema(list(batch.schema)[1:]))
        if part.file is None and first_read != part.first_seq and not reading.may_skip:
            self._require_untrimmed(part)

    def _bounded(self, first: int, last: int, limit: ReadLimit, extent: StreamExtent) -> int:
        """Return the last sequence of a micro-batch that begins at a sequence."""
        if isinstance(limit, ReadAllAvailable) or last < first:
            return last
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else self._reading.max_bytes
        if isinstance(limit, ReadMaxRows):
            last = min(last, first + limit.max_rows - 1)
        return last if most is None else self._reading.reach(first, last, most, extent.average_bytes)

    def _require_untrimmed(self, part: ReadRange) -> None:
        extent = self._reading.extent()
        if extent.first_seq > part.first_seq:
            raise DataLossError(
                f"stream {self._stream!r} was trimmed to message {extent.first_seq} while messages "
                f"{part.first_seq} to {part.last_seq} were read: read more often, or set option "
                "failOnDataLoss to false"
            )
