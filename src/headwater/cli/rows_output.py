"""The rows of a query as a table, CSV, JSON lines or Parquet, on standard output or in a file."""

from __future__ import annotations

import csv
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.cli.render import Column, Sheet, console, show
from headwater.errors import SettingsError
from headwater.model.counted import counted

FORMATS = ("table", "csv", "json", "parquet")
MOST_SHOWN = 1000
"""Rows of a table on the terminal."""


def write_rows(rows: pa.RecordBatchReader, format: str, output: Path | None) -> None:
    """Write all rows; a file is complete or does not exist."""
    check_output(format, output)
    if format == "parquet":
        assert output is not None
        with _finished(output) as path, pq.ParquetWriter(path, rows.schema) as writer:
            for batch in rows:
                writer.write_batch(batch)
        return
    if output is None:
        _write_text(rows, format, sys.stdout)
        return
    with _finished(output) as path, path.open("w", encoding="utf-8", newline="") as file:
        _write_text(rows, format, file)


def check_output(format: str, output: Path | None) -> None:
    """Refuse a format that the output cannot have, before a query runs."""
    if format == "parquet" and output is None:
        raise SettingsError("Parquet is not text: pass --output FILE")


def plain(value: Any) -> Any:
    """Return a value of Arrow as JSON has it: bytes as text, or in hexadecimal if they are none."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return "0x" + value.hex()
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        is_map = value and all(isinstance(each, tuple) and len(each) == 2 for each in value)
        return {str(k): plain(v) for k, v in value} if is_map else [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _write_text(rows: pa.RecordBatchReader, format: str, file: TextIO) -> None:
    found = (row for batch in rows for row in _rows_of(batch))
    names = rows.schema.names
    if format == "json":
        for row in found:
            file.write(json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False) + "\n")
    elif format == "csv":
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(value) for value in row] for row in found)
    else:
        _write_table(found, names, file)


def _write_table(found: Iterator[list[Any]], names: list[str], file: TextIO) -> None:
    shown = [[_cell(value) for value in row] for row in islice(found, MOST_SHOWN)]
    more = next(found, None) is not None
    title = f"more than {MOST_SHOWN:,} rows" if more else counted(len(shown), "row")
    show(Sheet(title, [Column(name, wraps=True) for name in names], shown), to=console(file))
    if more:
        print(f"headwater: only the first {MOST_SHOWN:,} rows are shown: pass --format csv", file=sys.stderr)


def _rows_of(batch: pa.RecordBatch) -> Iterator[list[Any]]:
    for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
        yield [plain(value) for value in row]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def _finished(output: Path) -> Iterator[Path]:
    """Yield a path to write to; it gets the wanted name once it is complete."""
    path = output.with_name(output.name + ".unfinished")
    try:
        yield path
        os.replace(path, output)
    except OSError as error:
        raise SettingsError(f"cannot write {output}: {error.strerror or error}") from None
    finally:
        path.unlink(missing_ok=True)
