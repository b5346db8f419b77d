"""Reads a stream once, as it is when Spark plans the read: one task for each file and each range."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from headwater.spark.pushed_filters import pushed
from headwater.spark.range_reader import read_batches
from headwater.spark.read_range import ReadRange
from headwater.spark.reading import Reading


class RangePartition(InputPartition):
    """The range that one task reads."""

    def __init__(self, part: ReadRange) -> None:
        super().__init__(part)
        self.part = part


class StreamReader(DataSourceReader):
    """Reads the stream once, as it is when the read is planned."""

    def __init__(self, reading: Reading, names: Sequence[str]) -> None:
        self.reading = reading
        self._names = names

    @property
    def pushFilters(self) -> FilterPush:
        """Return what Spark calls with the filters of a query, if it pushes filters to Python at all."""
        return FilterPush(self)

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each file, and for each range that is in no file yet."""
        return [RangePartition(part) for part in self.reading.ranges()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield one partition's messages."""
        if not isinstance(partition, RangePartition):
            # Spark's own, for a plan without ranges.
            return iter(())
        return read_batches(partition.part, self.reading.origin, self._names, self.reading.selection)


class FilterPush:
    """Restricts a reader by filters, if option `pushFilters` says so; Spark evaluates all of them again.

    It is an option because Spark 4.3 keeps one plan for each DataFrame: after a query with a filter, another
    query of the same DataFrame, or another scan in the same query, would read what the first filter selects.

    Spark refuses a reader with a `pushFilters` of its own while spark.sql.python.filterPushdown.enabled is
    false, which is the default. It recognises one by `__func__`. So this shows the function of Spark's own
    reader: with the setting, Spark calls this; without it, Spark reads as if there were none.
    """

    def __init__(self, reader: StreamReader) -> None:
        self._reader = reader
        self.__func__: Callable[..., object] = DataSourceReader.pushFilters

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        """Restrict the reader, and return the filters that Spark has to evaluate: all."""
        reading = self._reader.reading
        if reading.uses_filters:
            reading.selection = pushed(reading.selection, filters)
        return filters
