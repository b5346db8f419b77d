"""Rows of a query in each format, and files that are complete or not there."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headwater.cli.rows_output import MOST_SHOWN, plain, write_rows
from headwater.errors import SettingsError

TABLE = pa.table({"id": [1, 2], "name": ["a,b", None], "raw": [b"text", b"\xff"]})


def test_values_are_plain_json() -> None:
    at = datetime(2026, 11, 16, 8, tzinfo=UTC)
    assert plain(at) == "2026-11-16T08:00:00Z"
    assert plain(b"x") == "x"
    assert plain(b"\xff\x00") == "0xff00"
    assert plain([("A", ["1", "2"])]) == {"A": ["1", "2"]}
    assert plain({"a": [b"x", None, 1.5, True], "d": date(2026, 1, 2)}) == {
        "a": ["x", None, 1.5, True],
        "d": "2026-01-02",
    }
    assert (plain(Decimal("2")), plain(Decimal("2.5")), plain([])) == (2, 2.5, [])


def test_rows_are_written_as_csv_json_or_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(TABLE.to_reader(), "csv", None)
    assert capsys.readouterr().out == 'id,name,raw\n1,"a,b",text\n2,,0xff\n'
    write_rows(TABLE.to_reader(), "json", None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [{"id": 1, "name": "a,b", "raw": "text"}, {"id": 2, "name": None, "raw": "0xff"}]
    write_rows(TABLE.to_reader(), "table", None)
    shown = capsys.readouterr().out
    assert "2 rows" in shown
    assert "│ a,b" in shown


def test_a_long_table_is_cut_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(pa.table({"n": range(MOST_SHOWN + 1)}).to_reader(), "table", None)
    said = capsys.readouterr()
    assert "more than 1,000 rows" in said.out
    assert "--format csv" in said.err


def test_files_are_written_whole(tmp_path: Path) -> None:
    write_rows(TABLE.to_reader(), "parquet", tmp_path / "x.parquet")
    assert pq.read_table(tmp_path / "x.parquet") == TABLE
    write_rows(TABLE.to_reader(), "csv", tmp_path / "x.csv")
    assert (tmp_path / "x.csv").read_text().startswith("id,name,raw\n")
    with pytest.raises(SettingsError, match="Parquet is not text: pass --output FILE"):
        write_rows(TABLE.to_reader(), "parquet", None)
    with pytest.raises(SettingsError, match="cannot write"):
        write_rows(TABLE.to_reader(), "csv", tmp_path / "missing" / "x.csv")

    def broken() -> pa.RecordBatch:
        yield TABLE.to_batches()[0]
        raise RuntimeError("the source ends")

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, broken())
    with pytest.raises(RuntimeError):
        write_rows(reader, "json", tmp_path / "x.json")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.csv", "x.parquet"]
