"""`spark.read.format("headwater")` and `spark.readStream.format("headwater")`: a stream as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from headwater.errors import SettingsError
from headwater.spark.range_reader import read_batches
from headwater.spark.read_range import ReadRange
from headwater.spark.reading import UNBOUNDED, Reading

NAME = "headwater"
READ_ONLY = (
    "streams are read-only in Spark: publish to a stream's subjects with a NATS client, or write another "
    "table and read that"
)
SCHEMA = StructType(
    [
        StructField("seq", LongType()),
        StructField("subject", StringType()),
        StructField("time", TimestampType()),
        StructField("nanos", ShortType()),
        StructField("headers", MapType(StringType(), ArrayType(StringType()))),
        StructField("data", BinaryType()),
    ]
)


class StreamDataSource(DataSource):
    """A stream of Headwater, or without a path, of any JetStream server."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format(…)`."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns; `.schema(…)` with fewer reads only those."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the stream's current messages."""
        return StreamReader(Reading(self.options), column_names(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Refuse to write: only clients of the stream can, and they get an acknowledgement."""
        raise SettingsError(READ_ONLY)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Refuse to write, as `writer` does."""
        raise SettingsError(READ_ONLY)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return a reader that follows the stream."""
        reading = Reading(self.options)
        if reading.origin is None:
            raise SettingsError("missing option server: readStream needs it to find the end of the stream")
        return FollowingReader(reading, column_names(schema))


class RangePartition(InputPartition):
    """The range that one task reads."""

    def __init__(self, part: ReadRange) -> None:
        super().__init__(part)
        self.part = part


class StreamReader(DataSourceReader):
    """Reads the stream once, as it is when the read is planned."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        self._reading = reading
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each file, and for each range that is in no file yet."""
        return [RangePartition(part) for part in self._reading.ranges(1, UNBOUNDED)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one partition's messages."""
        return _read(self._reading, self._names, partition)


class FollowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads a stream in micro-batches; an offset is the last sequence read."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        self._reading = reading
        self._names = names
        self._target: int | None = None
        """The last sequence when the query began, if it is to end there; else None."""

    def initialOffset(self) -> dict[str, int]:
        """Return the offset at which a new query starts."""
        return {"seq": self._reading.start_seq - 1}

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
        return [RangePartition(part) for part in self._reading.ranges(start["seq"] + 1, end["seq"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one partition's messages."""
        return _read(self._reading, self._names, partition)


def next_offset(start_seq: int, last_seq: int, limit: ReadLimit) -> int:
    """Return the last sequence of a micro-batch that starts after `start_seq`."""
    if isinstance(limit, ReadMaxRows):
        last_seq = min(last_seq, start_seq + limit.max_rows)
    else:
        assert isinstance(limit, ReadAllAvailable), limit
    # A re-created stream may end before the offset; offsets never move back.
    return max(start_seq, last_seq)


def column_names(schema: StructType) -> list[str]:
    """Return the selected columns; raise if a stream has no such column of that type."""
    ours = {field.name: field.dataType for field in SCHEMA.fields}
    for field in schema.fields:
        if ours.get(field.name) != field.dataType:
            kind, known = field.dataType.simpleString(), SCHEMA.simpleString()
            raise SettingsError(f"a stream has no column {field.name!r} of type {kind}; it has {known}")
    return [field.name for field in schema.fields]


def _read(reading: Reading, names: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, RangePartition)
    return read_batches(partition.part, reading.origin, names)
