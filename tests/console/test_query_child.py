"""Tests of console.query_child: values, and DuckDB's own refusals behind the guard."""

from __future__ import annotations

import datetime
import io
import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from headwater.console import query_child
from headwater.console.query_child import CELL_LETTERS, cell, run


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, None),
        (True, True),
        (7, 7),
        (2**60, str(2**60)),
        (1.5, 1.5),
        (math.inf, "inf"),
        (Decimal("2.5"), 2.5),
        (Decimal("123"), 123),
        (b"text", "text"),
        (b"\xff\x00", "0xff00"),
        ("ä".encode() * CELL_LETTERS, "ä" * (CELL_LETTERS // 2)),
        ("x" * 9000, "x" * (CELL_LETTERS - 1) + "…"),
        ({"a": [1]}, '{"a": [1]}'),
        (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02 03:04:05"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
    ],
)
def test_a_value_becomes_json_of_bounded_length(value: Any, shown: Any) -> None:
    assert cell(value) == shown


def request(sql: str, store: Path, rows: int = 10) -> dict[str, Any]:
    return {
        "sql": sql,
        "store": str(store),
        "account": "$G",
        "streams": [],
        "heads": [],
        "rows": rows,
        "seconds": 10,
        "memory_bytes": 64 << 20,
    }


def test_rows_are_cut_at_the_bound(tmp_path: Path) -> None:
    answer = run(request("SELECT range AS n, 'x' AS t FROM range(1000)", tmp_path, rows=3))
    assert answer["columns"] == ["n", "t"]
    assert answer["rows"] == [[0, "x"], [1, "x"], [2, "x"]]
    assert answer["is_cut"]
    assert not run(request("VALUES (1), (2)", tmp_path, rows=2))["is_cut"]


def test_times_with_a_zone_are_shown_in_utc_without_more_packages(tmp_path: Path) -> None:
    sql = """SELECT TIMESTAMPTZ '2026-01-02 03:04:05.25+00' AS t, sum(n) AS total, NULL AS x, [1, 2] AS l
        FROM (VALUES (1), (2)) AS given(n)"""
    answer = run(request(sql, tmp_path))
    assert answer["rows"] == [["2026-01-02 03:04:05.250000", 3, None, "[1, 2]"]]
    assert answer["types"][0] == "TIMESTAMP WITH TIME ZONE"


def test_a_wide_result_is_cut_by_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_child, "MOST_RESULT_LETTERS", 100)
    answer = run(request("SELECT repeat('x', 40) FROM range(10)", tmp_path))
    assert len(answer["rows"]) == 2
    assert answer["is_cut"]


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('/etc/hostname')",
        "FROM '/etc/hostname'",
        "FROM read_csv('/etc/hostname')",
        "FROM glob('/etc/*')",
        "ATTACH '/tmp/x.db'",
        "COPY (SELECT 1) TO '/tmp/headwater-query.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '100GB'",
        "SELECT * FROM request",
    ],
)
def test_without_the_guard_duckdb_refuses_as_well(
    sql: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query_child, "tables_of", lambda connection, text: set())
    assert run(request(sql, tmp_path)).get("error")


def test_what_duckdb_says_is_the_error(tmp_path: Path) -> None:
    assert "NONE does not exist" in run(request("SELECT * FROM NONE", tmp_path))["error"]


def test_a_query_that_needs_too_much_memory_is_an_error(tmp_path: Path) -> None:
    sql = "SELECT list(range::VARCHAR || repeat('x', 1000)) FROM range(1000000)"
    assert "memory" in run(request(sql, tmp_path))["error"].lower()


def test_an_error_of_any_kind_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def damaged(asked: Any) -> dict[str, Any]:
        raise OSError("the table is damaged")

    output = io.StringIO()
    monkeypatch.setattr(query_child, "run", damaged)
    monkeypatch.setattr(query_child, "limit_process", lambda seconds: None)
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(request("SELECT 1", tmp_path))))
    monkeypatch.setattr("sys.stdout", output)
    query_child.main()
    assert json.loads(output.getvalue()) == {"error": "OSError: the table is damaged"}
