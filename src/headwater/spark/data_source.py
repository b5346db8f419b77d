"""`spark.read.format("headwater")` and `spark.readStream.format("headwater")`: a stream as a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
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
from headwater.spark.piece import Piece
from headwater.spark.piece_reader import read_piece
from headwater.spark.reading import UNBOUNDED, Reading

NAME = "headwater"
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
    """A stream of a Headwater, or of any JetStream when no path is given."""

    @classmethod
    def name(cls) -> str:
        """Return what stands in `format(…)`."""
        return NAME

    def schema(self) -> StructType:
        """Return all columns; `.schema(…)` with fewer reads only those."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads the stream as it is now."""
        return StreamReader(Reading(self.options), column_names(schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return what follows the stream."""
        reading = Reading(self.options)
        if reading.origin is None:
            raise SettingsError("readStream needs option server: only the engine knows how far a stream goes")
        return FollowingReader(reading, column_names(schema))


class PiecePartition(InputPartition):
    """One task's share."""

    def __init__(self, piece: Piece) -> None:
        super().__init__(piece)
        self.piece = piece


class StreamReader(DataSourceReader):
    """Reads the stream once, as it is when the read is planned."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        self._reading = reading
        self._names = names

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each file and for each range of what no file holds yet."""
        return [PiecePartition(piece) for piece in self._reading.pieces(1, UNBOUNDED)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one partition's messages."""
        return _read(self._reading, self._names, partition)


class FollowingReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads on from micro-batch to micro-batch; an offset is the last sequence that was read."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        self._reading = reading
        self._names = names
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:
        """Return where a new query begins."""
        return {"seq": self._reading.start_seq - 1}

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return how much a micro-batch takes."""
        return ReadMaxRows(self._reading.max_per_trigger)

    def prepareForTriggerAvailableNow(self) -> None:
        """Read no further than the stream reaches now."""
        self._target = self._reading.last_seq()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:
        """Return how far the next micro-batch goes."""
        last = self._reading.last_seq() if self._target is None else self._target
        return {"seq": next_offset(start["seq"], last, limit)}

    def reportLatestOffset(self) -> dict[str, int]:
        """Return the stream's end, for Spark's own reports of lag."""
        return {"seq": self._reading.last_seq()}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return the partitions of a micro-batch."""
        return [PiecePartition(piece) for piece in self._reading.pieces(start["seq"] + 1, end["seq"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one partition's messages."""
        return _read(self._reading, self._names, partition)


def next_offset(start_seq: int, last_seq: int, limit: ReadLimit) -> int:
    """Return the last sequence of a micro-batch that begins behind `start_seq`."""
    if isinstance(limit, ReadMaxRows):
        last_seq = min(last_seq, start_seq + limit.max_rows)
    else:
        assert isinstance(limit, ReadAllAvailable), limit
    # A stream that was made anew is shorter than what was read of the old one; nothing is taken back.
    return max(start_seq, last_seq)


def column_names(schema: StructType) -> list[str]:
    """Return the columns that are wanted, refused when a stream has none of that name and type."""
    ours = {field.name: field.dataType for field in SCHEMA.fields}
    for field in schema.fields:
        if ours.get(field.name) != field.dataType:
            kind, known = field.dataType.simpleString(), SCHEMA.simpleString()
            raise SettingsError(f"a stream has no column {field.name!r} of type {kind}; it has {known}")
    return [field.name for field in schema.fields]


def _read(reading: Reading, names: Sequence[str], partition: InputPartition) -> Iterator[pa.RecordBatch]:
    assert isinstance(partition, PiecePartition)
    return read_piece(partition.piece, reading.origin, names)
