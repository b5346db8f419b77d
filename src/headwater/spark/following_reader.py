"""Follows a stream in micro-batches; an offset is the last sequence read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from headwater.spark.reading import Reading
from headwater.spark.stream_reader import partitions_of, read_partition


class FollowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream in micro-batches; an offset is the last sequence read."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        self._reading = reading
        self._names = names
        self._target: int | None = None
        """The last sequence when the query began, if it is to end there; else None."""

    def initialOffset(self) -> dict[str, int]:
        """Return the offset at which a new query starts."""
        return {"seq": self._reading.selection.first_seq - 1}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the size limit of a micro-batch."""
        return ReadMaxRows(self._reading.max_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Stop at the current end of the stream."""
        self._target = self._reading.last_seq()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return the end of the next micro-batch."""
        last = self._reading.last_seq() if self._target is None else self._target
        return {"seq": next_offset(start["seq"], last, limit)}

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the stream's end, for Spark's own reports of lag."""
        return {"seq": self._reading.last_seq()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the partitions of a micro-batch."""
        return partitions_of(self._reading.ranges(start["seq"] + 1, end["seq"]))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one partition's messages."""
        return read_partition(self._reading, self._names, partition)


def next_offset(start_seq: int, last_seq: int, limit: ReadLimit) -> int:
    """Return the last sequence of a micro-batch that starts after `start_seq`."""
    if isinstance(limit, ReadMaxRows):
        last_seq = min(last_seq, start_seq + limit.max_rows)
    else:
        assert isinstance(limit, ReadAllAvailable), limit
    # A re-created stream may end before the offset; offsets never move back.
    return max(start_seq, last_seq)
