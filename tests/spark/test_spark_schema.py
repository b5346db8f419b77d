"""A schema names columns that a stream has, or is refused."""

from __future__ import annotations

import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from headwater.errors import SettingsError
from headwater.spark.columns import COLUMNS
from headwater.spark.spark_schema import SCHEMA, column_names


def test_only_the_columns_of_the_given_schema_are_read() -> None:
    assert column_names(SCHEMA) == COLUMNS.names
    assert column_names(StructType([StructField("data", SCHEMA["data"].dataType)])) == ["data"]


@pytest.mark.parametrize("field", [StructField("seq", StringType()), StructField("id", LongType())])
def test_a_column_that_a_stream_does_not_have_is_refused(field: StructField) -> None:
    with pytest.raises(SettingsError, match=f"no column '{field.name}'"):
        column_names(StructType([field]))
