"""SQL over streams on DuckDB, without a JVM: each stream is a table, typed if it has a schema."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headwater.errors import Error
from headwater.lake.dataset import StreamDataset
from headwater.lake.scanning import EngineMissingError
from headwater.model.payload_schema import type_of


class QueryFailedError(Error):
    """DuckDB does not run a query; the text is DuckDB's."""


@dataclass(frozen=True)
class StreamQuerySource:
    """A stream that a query names."""

    options: Mapping[str, str] = field(repr=False)
    """Of its read, as Spark's data source takes them; they may contain a password."""
    schema: Any = None
    """The JSON Schema of its payload, if it has one."""


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


def typed_view(schema: Any, source: str) -> str:
    """Return the SELECT of a stream whose payload is decoded by its schema.

    A payload that is no JSON object, or has a field of another type, is in `_corrupt`; its `data` is null.
    """
    kind = type_of(schema)
    structure = _text(json.dumps(kind.duckdb()))
    wrong = " OR ".join(["json_type(j) <> 'OBJECT'", *(_is_wrong(name) for name, _ in kind.fields)])
    return (
        f"SELECT seq, subject, time, nanos, headers, CASE WHEN NOT is_corrupt THEN v END AS data, "
        f"CASE WHEN is_corrupt THEN raw END AS _corrupt FROM (SELECT *, coalesce({wrong}, true) AS is_corrupt"
        f" FROM (SELECT *, json_transform(j, {structure}) AS v FROM (SELECT * EXCLUDE (data), data AS raw, "
        f"CASE WHEN json_valid(TRY(decode(data))) THEN TRY(decode(data))::JSON END AS j FROM {source})))"
    )


def _is_wrong(name: str) -> str:
    """Return the condition that a field is there and has another type."""
    path = _text(f"$.{json.dumps(name, ensure_ascii=False)}")
    return f"(v.{_name(name)} IS NULL AND coalesce(json_type(j, {path}), 'NULL') <> 'NULL')"


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
