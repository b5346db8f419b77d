"""Arrow and Spark see the same columns."""

from __future__ import annotations

from pyspark.sql.pandas.types import to_arrow_schema

from headwater.spark.columns import COLUMNS
from headwater.spark.spark_schema import SCHEMA


def test_the_arrow_columns_are_those_that_spark_expects() -> None:
    assert to_arrow_schema(SCHEMA, timezone="UTC").equals(COLUMNS)
