"""SQL over streams on DuckDB: plain and typed, several streams, and what does not parse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.disk import RealDisk
from headwater.lake.stream_sql import StreamQuerySource, run
from headwater.model.message import Message
from headwater.spark.session_query import QueryFailedError
from headwater.table import Table
from table.samples import TS, columns_of

SCHEMA: dict[str, Any] = {
    "properties": {
        "id": {"type": "integer"},
        "it's": {"type": "string"},
        "at": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "any": {},
    }
}
PAYLOADS = [
    b'{"id": 1, "it\'s": "x", "at": "2026-11-16T08:00:00Z", "tags": ["a"], "any": {"k": 2}}',
    b'{"id": null}',
    b"plain text",
    b"\xff\xfe",
    b"",
    b'{"id": "six"}',
    b'{"other": 7}',
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A stream with payloads of all kinds, and headers with two values."""
    directory: Path = tmp_path_factory.mktemp("S")
    headers = b"NATS/1.0\r\nA: 1\r\nA: 2\r\n\r\n"
    table = Table.open(directory / "table", RealDisk(sync=False))
    rows = [Message(seq, TS + seq, b"a.%d" % seq, headers, data) for seq, data in enumerate(PAYLOADS, 1)]
    table.commit([table.write(columns_of(rows))])
    return directory


def asked(sql: str, **streams: StreamQuerySource) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    return [tuple(row.values()) for row in run(sql, streams.get).read_all().to_pylist()]


def test_a_stream_is_a_table(folder: Path) -> None:
    plain = StreamQuerySource({"path": str(folder)})
    found = asked("SELECT seq, subject, headers['A'] FROM ORDERS WHERE seq < 3 ORDER BY seq", ORDERS=plain)
    assert found == [(1, "a.1", ["1", "2"]), (2, "a.2", ["1", "2"])]
    ended = StreamQuerySource({"path": str(folder), "endSequence": "4"})
    both = asked('SELECT (SELECT count(*) FROM A), (SELECT count(*) FROM "B")', A=plain, B=ended)
    assert both == [(7, 4)]
    assert asked("WITH ORDERS AS (SELECT 1 AS one) SELECT * FROM ORDERS") == [(1,)]


def test_a_schema_gives_typed_fields_and_keeps_the_rest(folder: Path) -> None:
    typed = StreamQuerySource({"path": str(folder)}, SCHEMA)
    sql = """SELECT seq, data.id, data."it's", epoch(data."at"), data.tags, data."any" ->> 'k'
        FROM ORDERS WHERE _corrupt IS NULL ORDER BY seq"""
    assert asked(sql, ORDERS=typed) == [
        (1, 1, "x", 1_794_816_000.0, ["a"], "2"),
        (2, None, None, None, None, None),
        (7, None, None, None, None, None),
    ]
    corrupt = asked("SELECT seq, _corrupt, data IS NULL FROM ORDERS WHERE _corrupt IS NOT NULL", ORDERS=typed)
    assert corrupt == [(seq, PAYLOADS[seq - 1], True) for seq in (3, 4, 5, 6)]
    assert asked("SELECT count(*) FROM ORDERS", ORDERS=typed) == [(7,)]


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT * FROM missing", "SELECT nothing FROM ORDERS"])
def test_what_duckdb_refuses_is_an_error_with_its_words(folder: Path, sql: str) -> None:
    with pytest.raises(QueryFailedError, match=r"Error"):
        asked(sql, ORDERS=StreamQuerySource({"path": str(folder)}))
