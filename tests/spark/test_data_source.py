"""What the data source reports to Spark, as far as it can be tested without Spark."""

from __future__ import annotations

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import LongType, StringType, StructField, StructType

import pyspark_headwater
from headwater.errors import SettingsError
from headwater.spark.data_source import SCHEMA, StreamDataSource, column_names, next_offset
from headwater.spark.range_reader import COLUMNS


def test_spark_finds_the_source_by_its_name() -> None:
    assert pyspark_headwater.DefaultSource is StreamDataSource
    assert StreamDataSource.name() == "headwater"
    assert StreamDataSource({}).schema().names == COLUMNS.names


def test_writing_is_refused_with_what_to_do_instead() -> None:
    for write in (StreamDataSource({}).writer, StreamDataSource({}).streamWriter):
        with pytest.raises(SettingsError, match="read-only in Spark: publish to a stream's subjects"):
            write(SCHEMA, False)


def test_only_the_columns_of_the_given_schema_are_read() -> None:
    assert column_names(SCHEMA) == COLUMNS.names
    assert column_names(StructType([StructField("data", SCHEMA["data"].dataType)])) == ["data"]


@pytest.mark.parametrize("field", [StructField("seq", StringType()), StructField("id", LongType())])
def test_a_column_that_a_stream_does_not_have_is_refused(field: StructField) -> None:
    with pytest.raises(SettingsError, match=f"no column '{field.name}'"):
        column_names(StructType([field]))


def test_a_micro_batch_takes_no_more_than_it_may() -> None:
    assert next_offset(10, 100, ReadMaxRows(30)) == 40
    assert next_offset(90, 100, ReadMaxRows(30)) == 100
    assert next_offset(90, 100, ReadAllAvailable()) == 100


def test_a_stream_that_became_shorter_takes_nothing_back() -> None:
    assert next_offset(90, 5, ReadMaxRows(30)) == 90


def test_following_a_stream_needs_a_server() -> None:
    with pytest.raises(SettingsError, match="missing option server"):
        StreamDataSource({"path": "store/$G/ORDERS"}).streamReader(SCHEMA)
