"""The process that runs one query: reads it as JSON from its input, writes the result as JSON, and ends.

A process of its own, so that a query that takes too long or too much memory ends without the console. It
cannot write files, and DuckDB gets neither files, extensions nor other databases.
"""

from __future__ import annotations

import datetime
import json
import math
import resource
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headwater.console.query_guard import tables_of
from headwater.console.query_heads import head_of
from headwater.console.query_tables import created_ns_of, table_path, tables_of_store
from headwater.errors import Error
from headwater.lake.dataset import StreamDataset
from headwater.process.ending import ProcessEnd

CELL_LETTERS = 2000
"""A longer value is cut."""
MOST_RESULT_LETTERS = 4_000_000
ADDRESS_SPACE = 8 << 30
"""What the process may map: libraries reserve far more than they use."""


def main() -> None:
    """Answer the query on the standard input."""
    request = json.load(sys.stdin)
    limit_process(float(request["seconds"]))
    try:
        answer = run(request)
    except Error as error:
        answer = {"error": str(error)}
    except MemoryError:
        answer = {"error": "the query needs too much memory"}
    except Exception as error:
        # The end of the process: whatever a damaged table raises is an answer, too.
        answer = {"error": f"{type(error).__name__}: {error}"}
    json.dump(answer, sys.stdout)


def limit_process(seconds: float) -> None:
    """Bound what this process can use, whatever the query does."""
    cpu = math.ceil(seconds * 4) + 1
    for kind, most in (
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_AS, ADDRESS_SPACE),
    ):
        hard = resource.getrlimit(kind)[1]
        bound = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (bound, bound))


def run(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return columns and rows, or the error that DuckDB reports."""
    import duckdb

    connection = duckdb.connect(":memory:", config=_config(int(request["memory_bytes"])))
    try:
        wanted = tables_of(connection, str(request["sql"]))
        tables = tables_of_store(request["store"], request["account"], request["streams"])
        reads = []
        for name in wanted:
            path = table_path(name, tables)
            if path:
                stream = next(known for known, each in tables.items() if each == path)
                dataset, read = opened(stream, path, request["heads"])
                connection.register(name, dataset)
                reads.append(read)
        connection.execute("SET lock_configuration = true")
        return _result(connection.sql(str(request["sql"])), int(request["rows"])) | {"reads": reads}
    except duckdb.Error as error:
        return {"error": str(error)}
    finally:
        connection.close()


def opened(
    stream: str, path: str, heads: Sequence[Mapping[str, Any]]
) -> tuple[StreamDataset, dict[str, Any]]:
    """Return a stream with what is not in its table yet, if its server can be asked, and what it holds."""
    head, why = head_of(heads, stream, created_ns_of(path))
    if head is not None and not why:
        try:
            united = StreamDataset({**head["options"], "path": path, "stream": stream})
            end = united.last_seq()
            return united, {"stream": stream, "through": end, "last_seq": end, "why": ""}
        except (Error, OSError) as error:
            why = f"its server cannot be asked: {error}"
    alone = StreamDataset({"path": path})
    through = alone.table_last_seq()
    last_seq = max(through, int(head["last_seq"])) if head is not None else None
    return alone, {"stream": stream, "through": through, "last_seq": last_seq, "why": why}


def _config(memory_bytes: int) -> dict[str, str | bool | int | float | list[str]]:
    return {
        "enable_external_access": "false",
        "allow_community_extensions": "false",
        "autoinstall_known_extensions": "false",
        "autoload_known_extensions": "false",
        "python_enable_replacements": "false",
        "temp_directory": "",
        "memory_limit": f"{memory_bytes // 1024}KiB",
        "threads": "2",
    }


def _result(relation: Any, most_rows: int) -> dict[str, Any]:
    if relation is None:
        return {"columns": [], "types": [], "rows": [], "is_cut": False}
    columns, types = list(relation.columns), [str(kind) for kind in relation.types]
    found = _fetched(relation.limit(most_rows + 1), types)
    rows: list[list[Any]] = []
    letters, is_cut = 0, len(found) > most_rows
    for row in found[:most_rows]:
        shown = [cell(value) for value in row]
        letters += sum(len(str(value)) for value in shown)
        if letters > MOST_RESULT_LETTERS:
            is_cut = True
            break
        rows.append(shown)
    return {"columns": columns, "types": types, "rows": rows, "is_cut": is_cut}


def _fetched(relation: Any, types: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return all rows; times with a zone come as Arrow, because DuckDB needs another package for them."""
    if not any("WITH TIME ZONE" in kind for kind in types):
        found: list[tuple[Any, ...]] = relation.fetchall()
        return found
    columns = [_in_utc(column) for column in relation.to_arrow_table().columns]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def _in_utc(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column of times without their zone, in UTC; others as they are."""
    is_zoned = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return column.cast(pa.timestamp("us"), safe=False) if is_zoned else column


def cell(value: Any) -> Any:
    """Return a value as JSON: numbers stay numbers, everything else is text of bounded length."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 53 else str(value)
    if isinstance(value, Decimal) and value.is_finite() and value.as_tuple().exponent == 0:
        return cell(int(value))  # how Arrow holds the sum of whole numbers
    if isinstance(value, float | Decimal):
        return float(value) if math.isfinite(value) else str(value)
    if isinstance(value, bytes | bytearray):
        return _cut(_bytes_text(bytes(value[: CELL_LETTERS + 1])))
    if isinstance(value, datetime.datetime):
        return value.isoformat(" ")
    if isinstance(value, dict | list | tuple):
        return _cut(json.dumps(value, default=str, ensure_ascii=False))
    return _cut(str(value))


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        is_cut = len(value) > CELL_LETTERS and error.start > len(value) - 4
        return value[: error.start].decode() if is_cut else "0x" + value.hex()


def _cut(text: str) -> str:
    return text if len(text) <= CELL_LETTERS else text[: CELL_LETTERS - 1] + "…"


if __name__ == "__main__":
    with ProcessEnd():
        main()
