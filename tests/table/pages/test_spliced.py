"""Files with pages of others in them are read by every engine, whole and with every checksum right."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.disk import RealDisk
from headwater.errors import CorruptionError
from headwater.model.message import Message
from headwater.table import Table, parquet
from headwater.table.adopted_sums import adopted_of
from headwater.table.arrow_tables import file_table, rows_of
from headwater.table.checked_bytes import ChecksumSink
from headwater.table.pages import data_chunk, plain_values
from headwater.table.pages.data_chunk import DataChunk
from headwater.table.parquet import FileStats, FileWriter
from headwater.table.rows import Rows
from headwater.table.schema import FILE
from headwater.table.stored_group import StoredFile
from table.samples import append, columns, columns_of, everything, message, messages_of, runs_of_messages


def messages_between(first: int, last: int) -> list[Message]:
    return [message(seq) for seq in range(first, last + 1)]


def encoded(messages: Sequence[Message]) -> Rows:
    """Return messages with their data at hand, for the writer to encode."""
    return rows_of(columns_of(messages))


def found(directory: Path, messages: Sequence[Message], compression: str) -> Rows:
    """Return messages with their data as it is in a separate file."""
    path = directory / f"origin-{messages[0].seq}-{compression}"
    parquet.write(path, columns_of(messages), 0, compression)
    return _as_stored(path)


def made(directory: Path, messages: Sequence[Message], compression: str) -> Rows:
    """Return messages with their data as pages that were made here."""
    rows = encoded(messages)
    chunk = data_chunk.encode(rows.datas, compression)
    return Rows(rows.seqs, rows.ts, rows.subjects, rows.headers, chunk)


def taken(directory: Path, messages: Sequence[Message], compression: str) -> Rows:
    """Return messages with their data as it was taken out of the pages of two files, among others there."""
    halves = [messages[: len(messages) // 2], messages[len(messages) // 2 :]]
    parts = []
    for half in filter(None, halves):
        among = [each for message in half for each in (message, message._replace(data=b"not wanted"))]
        with patch.object(plain_values, "LONG_BYTES", 0):
            values = data_chunk.encode(encoded(among).datas, compression).values()
        assert values is not None
        parts.append(values.take(np.arange(0, len(among), 2)))
    return replace(encoded(messages), datas=plain_values.concat(parts))


def _as_stored(path: Path) -> Rows:
    with StoredFile(path, parquet.read_footer(path, None), 0) as file:
        assert len(file.footer.bounds) == 1
        rows = file.group(0).rows()
    assert isinstance(rows.datas, DataChunk)
    return rows


def splice(path: Path, groups: Sequence[Rows], compression: str = "none", base_seq: int = 0) -> FileStats:
    """Write row groups as one file."""
    writer = FileWriter(path, base_seq, compression, spliced=True)
    for group in groups:
        writer.append_group(group)
    return writer.finish()


@pytest.fixture
def mixed(tmp_path: Path) -> tuple[Path, list[Message], FileStats]:
    """Return a file with pages of every kind, the messages in it, and what it says of itself."""
    parts = [messages_between(start, start + 700) for start in range(1, 8001, 1000)]
    groups = [
        found(tmp_path, parts[0], "none"),
        encoded(parts[1]),
        found(tmp_path, parts[2], "s2"),
        made(tmp_path, parts[3], "lz4"),
        made(tmp_path, parts[4], "none"),
        encoded(parts[5]),
        made(tmp_path, parts[6], "zstd"),
        taken(tmp_path, parts[7], "none"),
    ]
    path = tmp_path / "mixed.parquet"
    stats = splice(path, groups)
    return path, [each for part in parts for each in part], stats


def own(path: Path) -> list[Message]:
    """Return the messages of a file as we read them ourselves."""
    footer = parquet.read_footer(path, None)
    groups = (parquet.read_group(path, footer, index, 0) for index in range(len(footer.bounds)))
    return [each for group in groups for each in messages_of(group)]


def test_we_read_what_was_spliced(mixed: tuple[Path, list[Message], FileStats]) -> None:
    path, messages, stats = mixed
    assert own(path) == messages
    assert (stats.content.rows, stats.content.size_bytes) == (len(messages), path.stat().st_size)
    assert stats.sums is not None
    assert stats.sums.payload_bytes == sum(len(m.subject) + len(m.headers) + len(m.data) for m in messages)
    assert parquet.read_sums(parquet.read_footer(path, stats.footer_crc)) == stats.sums


def test_pyarrow_verifies_every_page(mixed: tuple[Path, list[Message], FileStats]) -> None:
    path, messages, _ = mixed
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        table = file.read()
        assert file.metadata.num_rows == len(messages)
        assert file.metadata.num_row_groups == 8
        assert {file.metadata.row_group(index).column(5).compression for index in range(8)} == {
            "UNCOMPRESSED",
            "LZ4",
            "ZSTD",
        }
    wanted = pa.concat_tables([file_table(encoded(messages))])
    assert table.cast(FILE).equals(wanted.cast(FILE))


def expected_rows(messages: Sequence[Message]) -> list[tuple[object, ...]]:
    """Return what a reader should say of the messages."""
    return [
        (m.seq, m.subject.decode(), m.ts // 1000, m.ts % 1000, m.headers or None, m.data) for m in messages
    ]


def with_duckdb(path: Path) -> list[tuple[object, ...]]:
    query = 'SELECT "offset", subject, epoch_us(time), nanos, headers, data FROM read_parquet(?)'
    with duckdb.connect() as connection:
        return connection.execute(query, [str(path)]).fetchall()


def with_polars(path: Path) -> list[tuple[object, ...]]:
    import polars as pl

    frame = pl.read_parquet(path).with_columns(pl.col("time").dt.epoch("us"))
    return frame.select("offset", "subject", "time", "nanos", "headers", "data").rows()


@pytest.mark.parametrize("read", [with_duckdb, with_polars])
def test_other_engines_read_the_same(
    mixed: tuple[Path, list[Message], FileStats], read: Callable[[Path], list[tuple[object, ...]]]
) -> None:
    path, messages, _ = mixed
    assert read(path) == expected_rows(messages)


def test_other_engines_find_rows_by_the_statistics(mixed: tuple[Path, list[Message], FileStats]) -> None:
    import polars as pl

    path, messages, _ = mixed
    wanted = [m.data for m in messages if m.seq >= 4500 and m.subject == b"orders.3"]
    query = "SELECT data FROM read_parquet(?) WHERE \"offset\" >= 4500 AND subject = 'orders.3'"
    with duckdb.connect() as connection:
        assert [data for (data,) in connection.execute(query, [str(path)]).fetchall()] == wanted
    lazily = pl.scan_parquet(path).filter((pl.col("offset") >= 4500) & (pl.col("subject") == "orders.3"))
    assert lazily.collect()["data"].to_list() == wanted
    filters = [("offset", ">=", 4500), ("subject", "=", "orders.3")]
    assert pq.read_table(path, filters=filters)["data"].to_pylist() == wanted


def test_a_table_that_adopts_a_spliced_file_is_read_by_delta_readers(tmp_path: Path) -> None:
    import polars as pl

    table = Table.open(tmp_path / "table", RealDisk(sync=False))
    append(table, range(1, 100))
    parts = messages_between(100, 900), messages_between(901, 950)
    stats = splice(tmp_path / "x", [found(tmp_path, parts[0], "none"), made(tmp_path, parts[1], "lz4")])
    assert stats.sums is not None
    name = f"x-{stats.footer_crc:08x}.parquet"
    (tmp_path / "x").rename(tmp_path / name)
    table.adopt(tmp_path, [adopted_of(name, stats.content.size_bytes, stats.sums)], {})
    messages = messages_between(1, 950)
    assert everything(table) == messages
    datas = [m.data for m in messages]
    assert pl.scan_delta(str(table.directory)).sort("offset").collect()["data"].to_list() == datas
    delta = DeltaTable(table.directory)
    assert delta.to_pyarrow_table().sort_by("offset")["data"].to_pylist() == datas
    with duckdb.connect() as connection:
        connection.register("messages", delta.to_pyarrow_dataset())
        found_there = connection.execute('SELECT data FROM messages ORDER BY "offset"').fetchall()
    assert [data for (data,) in found_there] == datas


@settings(max_examples=40)
@given(runs_of_messages(), st.data())
def test_any_messages_in_any_mixture_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, messages: list[Message], data: st.DataObject
) -> None:
    directory = tmp_path_factory.mktemp("mixture")
    cuts = sorted(data.draw(st.sets(st.integers(0, len(messages)), max_size=3)) | {0, len(messages)})
    groups = []
    for start, stop in itertools.pairwise(cuts):
        kind = data.draw(st.sampled_from([found, made, taken, None]))
        part = messages[start:stop]
        compression = data.draw(st.sampled_from(["none", "s2"] if kind is found else ["none", "lz4", "zstd"]))
        groups.append(kind(directory, part, compression) if kind else encoded(part))
    path = directory / "x"
    stats = splice(path, groups, data.draw(st.sampled_from(["none", "s2"])))
    assert own(path) == messages
    assert parquet.read_footer(path, stats.footer_crc).bounds[0][0] == messages[0].seq
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        assert file.read()["data"].to_pylist() == [m.data for m in messages]


def test_every_flipped_byte_of_a_row_group_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "x"
    splice(path, [found(tmp_path, messages_between(1, 8), "none"), encoded(messages_between(9, 15))])
    whole, footer = path.read_bytes(), parquet.read_footer(path, None)
    assert footer.places[0] == (4, footer.places[1][0])
    for index, (start, stop) in enumerate(footer.places):
        for at in range(start, stop):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
            with pytest.raises(CorruptionError):
                parquet.read_group(path, footer, index, 0)


class FullDisk:
    """Refuses one write of a file, and takes those before and behind it."""

    def __init__(self, refused: int) -> None:
        self._refused = refused
        self._count = 0
        self._write = ChecksumSink.write

    def write(self, sink: ChecksumSink, data: bytes | memoryview) -> int:
        self._count += 1
        if self._count == self._refused:
            raise OSError(28, "No space left on device")
        return self._write(sink, data)


def fails(path: Path, parts: Sequence[Rows], refused: int) -> bool:
    """Return whether the writing of parts fails at one of its writes; the file is closed then."""
    disk = FullDisk(refused)
    with patch.object(ChecksumSink, "write", lambda sink, data: disk.write(sink, data)):
        writer = FileWriter(path, 0, spliced=True)
        try:
            for part in parts:
                writer.append_group(part)
            failed = False
        except OSError:
            failed = True
    writer.abandon()
    return failed


def test_a_file_whose_write_failed_has_no_footer_that_we_take(tmp_path: Path) -> None:
    path = tmp_path / "x"
    parts = [made(tmp_path, messages_between(first, first + 90), "none") for first in (1, 101)]
    refused = 2
    while fails(path, parts, refused):
        # pyarrow may end a file by itself that lacks a write; it knows neither the data nor our sums.
        with pytest.raises(CorruptionError):
            parquet.read_footer(path, None)
        assert b"data" not in path.read_bytes()
        refused += 1
    assert refused > 20


def test_a_file_that_nothing_was_written_to_gets_no_footer(tmp_path: Path) -> None:
    FileWriter(tmp_path / "x", 0, spliced=True).abandon()
    assert (tmp_path / "x").read_bytes() == b"PAR1"


@pytest.mark.parametrize("compression", ["none", "s2"])
def test_runs_that_do_not_fill_a_group_are_joined_in_spliced_files_too(
    tmp_path: Path, compression: str
) -> None:
    path = tmp_path / "x"
    writer = FileWriter(path, 0, compression, spliced=True)
    for start in range(1, 1001, 100):
        writer.append(columns(range(start, start + 100)))
    writer.finish()
    assert len(parquet.read_footer(path, None).bounds) == 1
    assert own(path) == messages_between(1, 1000)


def test_pages_are_released_once_they_are_written(tmp_path: Path) -> None:
    rows = made(tmp_path, messages_between(1, 100), "none")
    assert isinstance(rows.datas, DataChunk)
    (page,) = rows.datas.pages
    body = bytearray(b"".join(page.body))
    writer = FileWriter(tmp_path / "x", 0, spliced=True)
    writer.append_group(
        replace(rows, datas=DataChunk((page._replace(body=(memoryview(body),)),), "UNCOMPRESSED"))
    )
    body.append(0)  # a buffer that somebody still looks at cannot grow
    stats = writer.finish()
    assert stats.content.rows == 100
