"""SQL over streams, on DuckDB without a JVM or on Spark: each stream is a table, typed if it has a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.lake.dataset import StreamDataset
from headwater.lake.scanning import EngineMissingError
from headwater.lake.spark_views import frame_of
from headwater.model.payload_schema import PayloadType, type_of
from headwater.spark.session_query import QueryFailedError, query


@dataclass(frozen=True)
class StreamQuerySource:
    """A stream that a query names."""

    options: Mapping[str, str] = field(repr=False)
    """Of its read, as Spark's data source takes them; they may contain a password."""
    schema: Any = None
    """The JSON Schema of its payload, if it has one."""


_JSON_TYPES = {
    "integer": ("BIGINT", "UBIGINT"),
    "number": ("BIGINT", "UBIGINT", "HUGEINT", "DOUBLE", "VARCHAR"),
    "boolean": ("BOOLEAN",),
    "time": ("VARCHAR",),
    "list": ("ARRAY",),
    "object": ("OBJECT",),
}
"""By kind of a field, the types that DuckDB finds in JSON."""
_NUMBER_WORDS = ("NaN", "Infinity", "+Infinity", "-Infinity", "INF", "+INF", "-INF")
"""Texts that are numbers for Spark."""

FindStream = Callable[[str], StreamQuerySource | None]
"""Returns the stream of a table's name, or None if there is none."""


def run(sql: str, find: FindStream) -> pa.RecordBatchReader:
    """Return the rows of a query; they are read while they are taken."""
    try:
        import duckdb
    except ImportError:
        raise EngineMissingError("duckdb is not installed: pip install duckdb") from None
    connection = duckdb.connect(":memory:")
    try:
        connection.execute("SET TimeZone = 'UTC'")
        for place, name in enumerate(sorted(connection.get_table_names(sql))):
            stream = find(name)
            if stream is not None:
                _add(connection, place, name, stream)
        relation = connection.sql(sql)
        if relation is None:
            raise QueryFailedError("the statement returns no rows: write a SELECT")
        return relation.to_arrow_reader(10_000)
    except duckdb.Error as error:
        raise QueryFailedError(str(error)) from None


def run_on_spark(sql: str, find: FindStream, spark: Any, most: int | None = None) -> pa.RecordBatchReader:
    """Return the rows of a query in a Spark session, at most as many as asked for."""

    def frame(name: str) -> Any:
        stream = find(name)
        return None if stream is None else frame_of(spark, stream.options, stream.schema)

    return query(spark, sql, frame, most)


def typed_view(schema: Any, source: str) -> str:
    """Return the SELECT of a stream whose payload is decoded by its schema.

    A payload that is no JSON object, or has a field of another type, is in `_corrupt`; its `data` is null.
    """
    kind = type_of(schema)
    structure = _text(json.dumps(kind.duckdb()))
    wrong = " OR ".join(["json_type(j) <> 'OBJECT'", *(_is_wrong("j", *field) for field in kind.fields)])
    return (
        f"SELECT seq, subject, time, nanos, headers, CASE WHEN NOT is_corrupt THEN v END AS data, "
        f"CASE WHEN is_corrupt THEN raw END AS _corrupt FROM (SELECT *, coalesce({wrong}, true) AS is_corrupt"
        f" FROM (SELECT *, json_transform(j, {structure}) AS v FROM (SELECT * EXCLUDE (data), data AS raw, "
        f"CASE WHEN json_valid(TRY(decode(data))) THEN TRY(decode(data))::JSON END AS j FROM {source})))"
    )


def _is_wrong(inside: str, name: str, kind: PayloadType) -> str:
    """Return the condition that a field of a JSON value is there and has another type."""
    return _has_other_type(f"({inside} -> {_text(f'$.{json.dumps(name, ensure_ascii=False)}')})", kind)


def _has_other_type(value: str, kind: PayloadType, depth: int = 0) -> str:
    """Return the condition that a JSON value is neither null nor of this type.

    DuckDB converts what it can: the text "7" to a number, 7.5 to 8. Spark takes such payload as corrupt.
    """
    if kind.kind in ("string", "json"):
        return "false"
    found = f"coalesce(json_type({value}), 'NULL')"
    wrong = f"{found} NOT IN ('NULL', {', '.join(map(_text, _JSON_TYPES[kind.kind]))})"
    if kind.item is not None:
        inside = _has_other_type(f"x{depth}", kind.item, depth + 1)
        return (
            f"({wrong} OR ({found} = 'ARRAY' AND "
            f"len(list_filter(TRY_CAST({value} AS JSON[]), lambda x{depth}: {inside})) > 0))"
        )
    if kind.kind == "object":
        return "(" + " OR ".join([wrong, *(_is_wrong(value, *field) for field in kind.fields)]) + ")"
    if kind.kind == "boolean":
        return f"({wrong})"
    text = f"({value} ->> '$')"
    if kind.kind == "number":
        words = ", ".join(map(_text, _NUMBER_WORDS))
        wrong = f"{found} = 'VARCHAR' AND {text} NOT IN ({words}) OR {wrong}"
    return f"({wrong} OR {found} <> 'NULL' AND TRY_CAST({text} AS {kind.duckdb()}) IS NULL)"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _name(value: str) -> str:
    return '"' + value.replace('"', '""') + '"'


def _add(connection: Any, place: int, name: str, stream: StreamQuerySource) -> None:
    dataset = StreamDataset(stream.options)
    if stream.schema is None:
        connection.register(name, dataset)
        return
    source = f"headwater_stream_{place}"
    connection.register(source, dataset)
    connection.execute(f"CREATE TEMP VIEW {_name(name)} AS {typed_view(stream.schema, source)}")
