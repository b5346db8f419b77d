"""What the data source reports to Spark, as far as it can be tested without Spark."""

from __future__ import annotations

import pytest

import pyspark_headwater
from headwater.errors import SettingsError
from headwater.spark.columns import COLUMNS
from headwater.spark.data_source import StreamDataSource
from headwater.spark.spark_schema import SCHEMA


def test_spark_finds_the_source_by_its_name() -> None:
    assert pyspark_headwater.DefaultSource is StreamDataSource
    assert StreamDataSource.name() == "headwater"
    assert StreamDataSource({}).schema().names == COLUMNS.names


def test_option_columns_selects_the_columns_of_a_read() -> None:
    assert StreamDataSource({"columns": "subject, seq"}).schema().names == ["subject", "seq"]
    with pytest.raises(SettingsError, match="no column 'payload'; there are seq, subject"):
        StreamDataSource({"columns": "seq,payload"}).schema()


def test_a_stream_cannot_be_overwritten() -> None:
    for write in (StreamDataSource({}).writer, StreamDataSource({}).streamWriter):
        with pytest.raises(SettingsError, match="a stream cannot be overwritten: use mode append"):
            write(SCHEMA, True)


def test_following_a_stream_needs_a_server() -> None:
    with pytest.raises(SettingsError, match="missing option server"):
        StreamDataSource({"path": "store/$G/ORDERS"}).streamReader(SCHEMA)
