"""Other engines read a table while it is being written, and see whole commits only."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from deltalake import DeltaTable

from headwater.disk import RealDisk
from headwater.table import Table
from interop.writer import BATCH
from table.links import link_of
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
    import polars as pl

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
    import polars as pl

    rows = pl.scan_delta(str(quiet)).sort(pl.col("base_seq") + pl.col("offset")).collect().to_dicts()
    assert [row["base_seq"] + row["offset"] for row in rows] == [*range(1, 11), *range(101, 106)]
    for row, seq in zip(rows[:10], range(1, 11), strict=True):
        written = message(seq)
        assert row["subject"].encode() == written.subject
        assert row["data"] == written.data
        assert (row["headers"] or b"") == written.headers
        assert round(row["time"].timestamp() * 1_000_000) * 1000 + row["nanos"] == written.ts


def test_statistics_let_readers_skip_files_without_losing_rows(quiet: Path) -> None:
    import polars as pl

    query = "SELECT base_seq + \"offset\" FROM messages WHERE subject = 'orders.3'"
    found = in_duckdb(quiet, query)
    assert sorted(found) == [(3,), (10,), (103,)]
    lazily = pl.scan_delta(str(quiet)).filter(pl.col("subject") == "orders.3").collect()
    assert sorted((lazily["base_seq"] + lazily["offset"]).to_list()) == [3, 10, 103]
    late = message(9).ts // 1000
    times = pl.scan_delta(str(quiet)).filter(pl.col("time").dt.epoch("us") >= late).collect()
    assert times["offset"].to_list() == [9, 10]


COPIED_NS = 1_800_000_000_000_000_000
SOURCE_COLUMNS = ("source", "source_id", "source_base", "copied_micros")


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Return the directory of a table with files of its own, and files of a source's origin between them."""
    table, staging = Table.open(tmp_path / "table", RealDisk(sync=False)), tmp_path / "staging"
    table.commit([table.write(columns(range(1, 4)))])
    one = link_of(staging, range(500, 510), "one").behind(3, 0, COPIED_NS)
    two = link_of(staging, range(510, 520), "two").behind(one.last_seq, 0, COPIED_NS)
    later = link_of(staging, range(5, 10), "later", base_seq=4).behind(two.last_seq, 0, COPIED_NS + 5_000)
    table.adopt(staging, [one, two, later], {})
    assert (one.base_seq, later.base_seq) == (-496, 23)
    table.commit([table.write(columns(range(29, 32)))])
    return table.directory


EXPECTED = [
    *((seq, message(seq), (None,) * 4) for seq in range(1, 4)),
    *((seq, message(seq + 496), ("ORDERS", "Ab1", 0, COPIED_NS // 1000)) for seq in range(4, 24)),
    *((seq, message(seq - 19), ("ORDERS", "Ab1", 4, COPIED_NS // 1000 + 5)) for seq in range(24, 29)),
    *((seq, message(seq), (None,) * 4) for seq in range(29, 32)),
]
Row = dict[str, Any]


def rows_of_deltalake(directory: Path) -> list[Row]:
    rows: list[Row] = DeltaTable(directory).to_pyarrow_table().to_pylist()
    return rows


def rows_of_duckdb(directory: Path) -> list[Row]:
    with duckdb.connect() as connection:
        connection.register("messages", DeltaTable(directory).to_pyarrow_dataset())
        rows: list[Row] = connection.sql("SELECT * FROM messages").to_arrow_table().to_pylist()
        return rows


def rows_of_polars(directory: Path) -> list[Row]:
    import polars as pl

    return pl.scan_delta(str(directory)).collect().to_dicts()


@pytest.mark.parametrize("read", [rows_of_deltalake, rows_of_duckdb, rows_of_polars])
def test_of_linked_files_a_reader_sees_what_the_origin_wrote_and_where_it_came_from(
    mixed: Path, read: Callable[[Path], list[Row]]
) -> None:
    rows = sorted(read(mixed), key=lambda row: row["base_seq"] + row["offset"])
    assert [row["base_seq"] + row["offset"] for row in rows] == [seq for seq, _, _ in EXPECTED]
    for row, (_, written, source) in zip(rows, EXPECTED, strict=True):
        assert tuple(row[name] for name in SOURCE_COLUMNS) == source
        assert row["subject"].encode() == written.subject
        assert (row["headers"] or b"", row["data"]) == (written.headers, written.data)
        assert round(row["time"].timestamp() * 1_000_000) * 1000 + row["nanos"] == written.ts
        if source[0]:
            # What the header would say of it.
            assert row["source_base"] + row["offset"] == written.seq


def test_readers_skip_files_by_where_they_came_from_and_by_the_origin_s_times(mixed: Path) -> None:
    import polars as pl

    assert sorted(in_duckdb(mixed, "SELECT base_seq + \"offset\" FROM messages WHERE source = 'ORDERS'")) == [
        (seq,) for seq in range(4, 29)
    ]
    own = pl.scan_delta(str(mixed)).filter(pl.col("source").is_null()).collect()
    assert sorted((own["base_seq"] + own["offset"]).to_list()) == [1, 2, 3, 29, 30, 31]
    late = message(505).ts // 1000
    times = pl.scan_delta(str(mixed)).filter(pl.col("time").dt.epoch("us") >= late).collect()
    assert sorted((times["base_seq"] + times["offset"]).to_list()) == list(range(9, 24))
