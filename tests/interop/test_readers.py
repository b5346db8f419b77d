"""Other engines read a table while it is being written, and see whole commits only."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import polars as pl
import pytest
from deltalake import DeltaTable

from headwater.disk import RealDisk
from headwater.table import Table
from interop.writer import BATCH
from table.samples import columns, message

TESTS = Path(__file__).parent.parent
READS = 15


def with_deltalake(directory: Path) -> list[int]:
    rows = DeltaTable(directory).to_pyarrow_table(columns=["base_seq", "offset"])
    return [b + o for b, o in zip(rows["base_seq"].to_pylist(), rows["offset"].to_pylist(), strict=True)]


def in_duckdb(directory: Path, query: str) -> list[tuple[int]]:
    """Return what DuckDB answers about the files that deltalake names."""
    # DuckDB's own Delta extension must match its version, and is not packaged for each.
    with duckdb.connect() as connection:
        connection.register("messages", DeltaTable(directory).to_pyarrow_dataset())
        return connection.execute(query).fetchall()


def with_duckdb(directory: Path) -> list[int]:
    return [seq for (seq,) in in_duckdb(directory, 'SELECT base_seq + "offset" FROM messages')]


def with_polars(directory: Path) -> list[int]:
    frame = pl.scan_delta(str(directory)).select((pl.col("base_seq") + pl.col("offset")).alias("seq"))
    return frame.collect()["seq"].to_list()


READERS = [with_deltalake, with_duckdb, with_polars]


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """Yield the directory of a table that another process is writing."""
    table, stop = tmp_path / "table", tmp_path / "stop"
    writer = subprocess.Popen(
        [sys.executable, "-m", "interop.writer", str(table), str(stop)], cwd=TESTS, stderr=subprocess.PIPE
    )
    try:
        while not (table / "_delta_log" / "00000000000000000001.json").exists():
            assert writer.poll() is None, writer.stderr
            time.sleep(0.01)
        yield table
        stop.touch()
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors
    finally:
        if writer.poll() is None:
            writer.kill()
            writer.communicate()


@pytest.mark.parametrize("read", READERS)
def test_a_reader_sees_whole_commits_while_the_table_grows(
    directory: Path, read: Callable[[Path], list[int]]
) -> None:
    seen = 0
    for _ in range(READS):
        seqs = sorted(read(directory))
        assert seqs == list(range(1, len(seqs) + 1))
        assert len(seqs) % BATCH == 0
        assert len(seqs) >= seen
        seen = len(seqs)
    assert seen > 0


@pytest.fixture
def quiet(tmp_path: Path) -> Path:
    """Return the directory of a finished table with two bases."""
    table = Table.open(tmp_path / "table", RealDisk(sync=False))
    table.commit([table.write(columns(range(1, 11)))])
    table.commit([table.place(table.write(columns(range(1, 6))), 100)])
    return table.directory


def test_every_field_reads_back_in_polars(quiet: Path) -> None:
    rows = pl.scan_delta(str(quiet)).sort(pl.col("base_seq") + pl.col("offset")).collect().to_dicts()
    assert [row["base_seq"] + row["offset"] for row in rows] == [*range(1, 11), *range(101, 106)]
    for row, seq in zip(rows[:10], range(1, 11), strict=True):
        told = message(seq)
        assert row["subject"].encode() == told.subject
        assert row["data"] == told.data
        assert (row["headers"] or b"") == told.headers
        assert round(row["time"].timestamp() * 1_000_000) * 1000 + row["nanos"] == told.ts


def test_statistics_let_readers_skip_files_without_losing_rows(quiet: Path) -> None:
    query = "SELECT base_seq + \"offset\" FROM messages WHERE subject = 'orders.3'"
    found = in_duckdb(quiet, query)
    assert sorted(found) == [(3,), (10,), (103,)]
    lazily = pl.scan_delta(str(quiet)).filter(pl.col("subject") == "orders.3").collect()
    assert sorted((lazily["base_seq"] + lazily["offset"]).to_list()) == [3, 10, 103]
    late = message(9).ts // 1000
    times = pl.scan_delta(str(quiet)).filter(pl.col("time").dt.epoch("us") >= late).collect()
    assert times["offset"].to_list() == [9, 10]
