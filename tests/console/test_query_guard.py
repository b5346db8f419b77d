"""Only one harmless SELECT passes."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from headwater.console.query_guard import MOST_LETTERS, QueryRefusedError, tables_of


@pytest.fixture(scope="module")
def connection() -> Any:
    return duckdb.connect(":memory:", config={"enable_external_access": "false"})


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT count(*) FROM ORDERS", {"ORDERS"}),
        ('FROM "A-b" JOIN other USING (seq) WHERE seq IN (SELECT seq FROM third)', {"A-b", "other", "third"}),
        ("WITH a AS (SELECT 1) SELECT * FROM a, range(5), unnest([1, 2])", {"a"}),
        ("VALUES (1)", set()),
        ("DESCRIBE orders", {"orders"}),
        ("SELECT 1 -- with a comment", set()),
        ("SELECT lower(subject), data::VARCHAR FROM orders ORDER BY 1 LIMIT 3;", {"orders"}),
    ],
)
def test_a_query_over_tables_passes(connection: Any, sql: str, tables: set[str]) -> None:
    assert tables_of(connection, sql) == tables


@pytest.mark.parametrize(
    "sql",
    [
        "FROM read_text('/etc/passwd')",
        "SELECT (SELECT content FROM read_text('/etc/passwd'))",
        "WITH x AS (FROM read_csv('/etc/passwd')) FROM x",
        "FROM glob('/*')",
        "FROM query('SELECT 1')",
        "FROM query_table('orders')",
        "FROM arrow_scan(1, 2, 3)",
        "FROM pandas_scan(1)",
        "FROM duckdb_secrets()",
        "FROM READ_BLOB('/etc/passwd')",
        "FROM system.main.read_blob('/etc/passwd')",
        "SELECT getenv('HOME')",
        "SELECT current_setting('memory_limit')",
        "SELECT write_log('x')",
        "ATTACH '/tmp/x.db'",
        "COPY (SELECT 1) TO '/tmp/x.csv'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET enable_external_access = true",
        "PRAGMA version",
        "CALL pragma_version()",
        "CREATE TABLE t AS SELECT 1",
        "INSERT INTO t VALUES (1)",
        "EXPORT DATABASE '/tmp/x'",
        "CREATE SECRET (TYPE s3)",
        "SELECT 1; SELECT 2",
        "SELECT 1; ATTACH '/tmp/x.db'",
        "",
        "SELECT",
        "SELECT '" + "x" * MOST_LETTERS + "'",
    ],
)
def test_everything_else_is_refused_before_it_runs(connection: Any, sql: str) -> None:
    with pytest.raises(QueryRefusedError):
        tables_of(connection, sql)
