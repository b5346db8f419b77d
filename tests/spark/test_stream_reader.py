"""The reader of a whole stream, as Spark's workers use it: with and without filter push-down."""

from __future__ import annotations

import pickle
from pathlib import Path

from pyspark.sql.datasource import DataSourceReader, EqualTo, InputPartition

from headwater.disk import RealDisk
from headwater.spark.reading import Reading
from headwater.spark.stream_reader import StreamReader
from headwater.table import Table
from table.samples import columns


def reader_of(folder: Path, **options: str) -> StreamReader:
    """Return a reader of a stream with two files of ten messages."""
    if not (folder / "table").exists():
        table = Table.open(folder / "table", RealDisk(sync=False))
        table.commit([table.write(columns(range(1, 11))), table.write(columns(range(11, 21)))])
    return StreamReader(Reading({"path": str(folder), **options}), ["seq"])


def seqs(reader: StreamReader) -> list[int]:
    """Return what tasks read, each with a copy of the reader as Spark sends it."""
    copy = pickle.loads(pickle.dumps(reader))
    return [
        seq
        for partition in reader.partitions()
        for batch in copy.read(partition)
        for seq in batch["seq"].to_pylist()
    ]


def test_spark_takes_the_reader_for_one_without_push_down_if_that_is_disabled(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    assert getattr(reader.pushFilters, "__func__", None) is DataSourceReader.pushFilters
    assert seqs(reader) == list(range(1, 21))


def test_pushed_filters_restrict_the_plan_and_are_returned_to_spark(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, pushFilters="true")
    filters = [EqualTo(("seq",), 15), EqualTo(("data",), b"x")]
    assert list(reader.pushFilters(list(filters))) == filters
    assert len(reader.partitions()) == 1
    assert seqs(reader) == [15]


def test_without_the_option_filters_are_left_to_spark(tmp_path: Path) -> None:
    reader = reader_of(tmp_path)
    filters = [EqualTo(("seq",), 15)]
    assert list(reader.pushFilters(list(filters))) == filters
    assert seqs(reader) == list(range(1, 21))


def test_the_empty_partition_of_a_plan_without_ranges_has_no_rows(tmp_path: Path) -> None:
    assert list(reader_of(tmp_path).read(InputPartition(None))) == []
