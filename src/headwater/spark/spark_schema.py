"""The columns of a stream as Spark types."""

from __future__ import annotations

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


def column_names(schema: StructType) -> list[str]:
    """Return the selected columns; raise if a stream has no such column of that type."""
    ours = {field.name: field.dataType for field in SCHEMA.fields}
    for field in schema.fields:
        if ours.get(field.name) != field.dataType:
            kind, known = field.dataType.simpleString(), SCHEMA.simpleString()
            raise SettingsError(f"a stream has no column {field.name!r} of type {kind}; it has {known}")
    return [field.name for field in schema.fields]
