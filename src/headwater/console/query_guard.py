"""What SQL from a browser may contain: one SELECT over tables, and functions that read nothing else.

DuckDB's own settings already refuse files, extensions and other databases. This check comes before them:
DuckDB parses the text, and every table function in the tree must be in a list of harmless ones. The functions
of DuckDB's Python package that take addresses in memory are not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headwater.errors import Error

TABLE_FUNCTIONS = frozenset(
    {"range", "generate_series", "unnest", "json_each", "json_tree", "repeat", "repeat_row", "summary"}
)
REFUSED_FUNCTIONS = frozenset(
    {"getenv", "getvariable", "current_setting", "write_log", "nextval", "currval", "query", "query_table"}
)
MOST_LETTERS = 20_000
BUCKETS = ("s3://", "gs://", "az://", "file://")
"""How the address of a store in a bucket begins."""


class QueryRefusedError(Error):
    """SQL that the console does not run, with the reason."""


def tables_of(connection: Any, sql: str) -> set[str]:
    """Return the names of the tables that a query reads; raise if it is more than a harmless SELECT."""
    if len(sql) > MOST_LETTERS:
        raise QueryRefusedError(f"the query is too long: at most {MOST_LETTERS} letters")
    ((text,),) = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
    parsed = json.loads(text)
    if parsed.get("error"):
        raise QueryRefusedError(_words(parsed))
    if len(parsed.get("statements") or ()) != 1:
        raise QueryRefusedError("write one SELECT statement")
    tables: set[str] = set()
    for node in _nodes(parsed["statements"]):
        _require_harmless(node)
        if node.get("type") == "BASE_TABLE":
            tables.add(str(node.get("table_name", "")))
    return tables


def _words(parsed: dict[str, Any]) -> str:
    message = str(parsed.get("error_message", ""))
    return "only SELECT statements are run" if "Only SELECT" in message else message


def _require_harmless(node: dict[str, Any]) -> None:
    is_table_function = node.get("type") == "TABLE_FUNCTION"
    if is_table_function:
        node = node.get("function") or {}
    elif "function_name" not in node:
        return
    name = str(node.get("function_name", "")).lower()
    if name in REFUSED_FUNCTIONS or (is_table_function and name not in TABLE_FUNCTIONS):
        raise QueryRefusedError(f"the function {name or '?'} is not allowed here")


def _nodes(value: Any) -> Iterator[dict[str, Any]]:
    """Yield every object of a JSON document."""
    pending = [value]
    while pending:
        one = pending.pop()
        if isinstance(one, dict):
            yield one
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
