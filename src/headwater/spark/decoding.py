"""`headwater.spark.decode`: payloads as typed columns, by Spark's own functions.

Column `data` becomes the decoded value. Column `_corrupt` holds the payload of rows that do not parse, whose
`data` is null; it is null for all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from headwater.errors import SettingsError
from headwater.model.payload_schema import quoted, spark_fields

CORRUPT = "_corrupt"
INFER = "infer"
_INSIDE = "_headwater_corrupt"
_SAMPLE = 10_000
"""How many messages the types of JSON are inferred from."""

PayloadSchema = str | StructType | Mapping[str, Any]
"""Spark's DDL or type, a JSON Schema, an Avro schema as JSON, or `infer`."""


def decode(
    frame: DataFrame, format: str, schema: PayloadSchema = INFER, *, column: str = "data"
) -> DataFrame:
    """Return a stream's DataFrame with decoded payloads.

    `format` is json, csv, text, avro or protobuf. `schema` is a DDL string (`id BIGINT, amount DOUBLE`), a
    StructType or a JSON Schema as a dict; for json also `infer`, which reads the first 10,000 messages; for
    avro, the Avro schema as JSON; for protobuf, `DESCRIPTOR_FILE:MESSAGE`. Text needs none.
    """
    decoders: dict[str, Callable[[DataFrame, PayloadSchema, str], DataFrame]] = {
        "json": _json,
        "csv": _csv,
        "text": _text,
        "avro": _avro,
        "protobuf": _protobuf,
    }
    if format not in decoders:
        raise SettingsError(f"format {format!r} is unknown: there are {', '.join(decoders)}")
    if column not in frame.columns:
        raise SettingsError(f"there is no column {column!r} to decode: it has {', '.join(frame.columns)}")
    return decoders[format](frame, schema, column)


def _json(frame: DataFrame, schema: PayloadSchema, column: str) -> DataFrame:
    ddl = _inferred(frame, column) if schema == INFER else _ddl(schema)
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _INSIDE, "allowSingleQuotes": "false"}
    return _parsed(frame, column, lambda text: F.from_json(text, _marked(ddl), options))


def _csv(frame: DataFrame, schema: PayloadSchema, column: str) -> DataFrame:
    if schema == INFER:
        raise SettingsError("csv needs a schema, such as 'id BIGINT, amount DOUBLE'")
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _INSIDE}
    return _parsed(frame, column, lambda text: F.from_csv(text, _marked(_ddl(schema)), options))


def _text(frame: DataFrame, schema: PayloadSchema, column: str) -> DataFrame:
    text = F.col(column).cast("string")
    is_text = F.is_valid_utf8(text)
    return _replaced(frame, column, F.when(is_text, text), ~is_text)


def _avro(frame: DataFrame, schema: PayloadSchema, column: str) -> DataFrame:
    from pyspark.sql.avro.functions import from_avro

    if schema == INFER or not isinstance(schema, str):
        raise SettingsError("avro needs its schema as JSON text")
    value = _packaged("avro", lambda: from_avro(F.col(column), schema, {"mode": "PERMISSIVE"}), frame)
    is_corrupt = _is_empty(frame, value)
    return _replaced(frame, column, F.when(~is_corrupt, value), is_corrupt)


def _protobuf(frame: DataFrame, schema: PayloadSchema, column: str) -> DataFrame:
    from pyspark.sql.protobuf.functions import from_protobuf

    file, found, message = str(schema).rpartition(":")
    if schema == INFER or not found:
        raise SettingsError(
            "protobuf needs DESCRIPTOR_FILE:MESSAGE, the file made with protoc --descriptor_set_out"
        )
    if not Path(file).is_file():
        raise SettingsError(f"there is no descriptor file {file}")
    options = {"mode": "PERMISSIVE"}
    value = _packaged("protobuf", lambda: from_protobuf(F.col(column), message, file, options), frame)
    # A message without fields has no bytes.
    is_corrupt = _is_empty(frame, value) & (F.length(column) > 0)
    return _replaced(frame, column, F.when(~is_corrupt, value), is_corrupt)


def _is_empty(frame: DataFrame, value: Column) -> Column:
    """Return whether a value has nothing: for what it cannot read, Spark returns a record of nulls."""
    kind = frame.select(value.alias("value")).schema["value"].dataType
    empty = value.isNull()
    if isinstance(kind, StructType) and kind.fields:
        empty = empty | reduce(and_, (value.getField(name).isNull() for name in kind.names))
    return empty


def _packaged(name: str, make: Callable[[], Column], frame: DataFrame) -> Column:
    """Return a column made with functions of a package that Spark does not contain."""
    try:
        value = make()
        # Spark looks for the package when it analyses the column.
        frame.select(value).schema  # noqa: B018
    except (AnalysisException, TypeError) as error:
        spark = frame.sparkSession
        raise SettingsError(
            f"Spark cannot decode {name} ({str(error).partition(chr(10))[0]}): start it with "
            f"--packages org.apache.spark:spark-{name}_2.13:{spark.version}"
        ) from error
    return value


def _parsed(frame: DataFrame, column: str, parse: Callable[[Column], Column]) -> DataFrame:
    """Return the frame with text parsed to a struct that has a field for what does not parse."""
    text = F.col(column).cast("string")
    parsed = parse(F.when(F.is_valid_utf8(text), text))
    held = frame.withColumn(_INSIDE, parsed)
    inside = F.col(_INSIDE)
    is_corrupt = inside.isNull() | inside[_INSIDE].isNotNull()
    value = F.when(~is_corrupt, inside.dropFields(_INSIDE))
    return _replaced(held, column, value, is_corrupt).drop(_INSIDE)


def _replaced(frame: DataFrame, column: str, value: Column, is_corrupt: Column) -> DataFrame:
    """Return the frame with the decoded value, and the payload of rows that have none."""
    corrupt = F.when(is_corrupt & F.col(column).isNotNull(), F.col(column))
    return frame.select(
        *(
            value.alias(column) if name == column else F.col(name)
            for name in frame.columns
            if name != CORRUPT
        ),
        corrupt.alias(CORRUPT),
    )


def _inferred(frame: DataFrame, column: str) -> str:
    if frame.isStreaming:
        raise SettingsError("the schema of a streaming DataFrame cannot be inferred: pass one")
    texts = frame.select(F.col(column).cast("string").alias("value")).limit(_SAMPLE)
    found = frame.sparkSession.read.option("mode", "DROPMALFORMED").json(texts).schema
    if not found.fields:
        raise SettingsError(f"the first {_SAMPLE:,} messages have no JSON objects to infer a schema from")
    return _ddl(found)


def _ddl(schema: PayloadSchema) -> str:
    """Return the fields of a schema as DDL."""
    if isinstance(schema, DataType):
        return ", ".join(f"{quoted(field.name)} {field.dataType.simpleString()}" for field in schema.fields)
    if isinstance(schema, Mapping):
        return spark_fields(schema)
    return schema


def _marked(ddl: str) -> str:
    return f"{ddl}, {_INSIDE} STRING"
