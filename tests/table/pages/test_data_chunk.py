"""Pages that are made here are read by pyarrow, and those of other files are found or refused."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.table.arrow_tables import rows_of
from headwater.table.pages import data_chunk, plain_values, thrift
from headwater.table.pages.data_chunk import PAGE_BYTES, DataChunk, encode, find
from headwater.table.parquet import FileWriter
from table.samples import columns

COMPRESSIONS = ["none", "lz4", "zstd"]
CODECS = {"none": "UNCOMPRESSED", "lz4": "LZ4", "zstd": "ZSTD"}
SCHEMA = pa.schema([pa.field("data", pa.binary(), nullable=False)])


def array(values: Sequence[bytes]) -> pa.BinaryArray:
    return pa.array(values, pa.binary())


def read_back(directory: Path, chunk: DataChunk) -> list[bytes]:
    """Return the values of a chunk as pyarrow reads them, page checksums and all."""
    path = directory / "chunk.parquet"
    writer = FileWriter(path, 0, spliced=True)
    writer.append_group(replace(rows_of(columns(range(1, chunk.rows + 1))), datas=chunk))
    writer.finish()
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        values: list[bytes] = file.read(columns=["data"])["data"].to_pylist()
    return values


def joined(chunk: DataChunk) -> memoryview:
    return memoryview(b"".join(chunk.parts))


def pages(chunk: DataChunk) -> list[thrift.Struct]:
    """Return the headers of a chunk's pages."""
    content, at, found = joined(chunk), 0, []
    while at < len(content):
        header, at = thrift.read_struct(content, at)
        found.append(header)
        at += header[3][1]
    return found


def written(directory: Path, values: Sequence[bytes], **options: Any) -> tuple[memoryview, Any]:
    """Return the column chunk that pyarrow makes of the values, and what the footer says of it."""
    path = directory / "written.parquet"
    usual = {"use_dictionary": False, "compression": "none", "write_statistics": False}
    schema = options.pop("schema", SCHEMA)
    pq.write_table(pa.table([array(values)], schema=schema), path, **(usual | options))
    column = pq.read_metadata(path).row_group(0).column(0)
    start = column.dictionary_page_offset or column.data_page_offset
    return memoryview(path.read_bytes())[start : start + column.total_compressed_size], column


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(values=st.lists(st.binary(max_size=40), min_size=1, max_size=40))
def test_pyarrow_reads_back_what_was_encoded(
    tmp_path_factory: pytest.TempPathFactory, compression: str, values: list[bytes]
) -> None:
    chunk = encode(array(values), compression)
    assert read_back(tmp_path_factory.getbasetemp(), chunk) == values
    assert (chunk.codec, chunk.rows, chunk.nbytes) == (
        CODECS[compression],
        len(values),
        sum(map(len, values)),
    )
    assert chunk.packed_bytes == len(joined(chunk))


SHAPES = {
    "nothing but empty": [b""] * 1000,
    "one empty": [b""],
    "huge": [bytes(range(256)) * (20 << 12)],
    "huge among small": [b"small", b"x" * (5 << 20), b"", b"y" * (PAGE_BYTES + 1), b"last"],
    "several pages": [b"%07d" % number * 40 for number in range(10_000)],
    "a page to the byte": [b"p" * (PAGE_BYTES // 4 - 4)] * 9,
}


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_values_of_every_shape_are_read_back(tmp_path: Path, compression: str, shape: str) -> None:
    values = SHAPES[shape]
    chunk = encode(array(values), compression, 1 if compression == "zstd" else None)
    assert read_back(tmp_path, chunk) == values
    headers = pages(chunk)
    assert sum(header[5][1][1][1] for header in headers) == len(values)
    for header in headers:
        assert header[2][1] <= PAGE_BYTES or header[5][1][1][1] == 1
    plain = sum(len(value) + 4 for value in values)
    assert sum(header[2][1] for header in headers) == plain
    assert len(headers) >= plain // PAGE_BYTES or max(map(len, values)) > PAGE_BYTES
    assert chunk.packed_bytes < plain or compression == "none" or shape == "one empty"


def test_a_part_of_an_array_is_encoded_as_that_part(tmp_path: Path) -> None:
    values = [b"%d" % number for number in range(100)]
    chunk = encode(array(values)[30:50], "none")
    assert read_back(tmp_path, chunk) == values[30:50]
    assert chunk.nbytes == 40


def test_pyarrow_notices_a_page_that_was_changed(tmp_path: Path) -> None:
    chunk = encode(array([b"value %d" % number for number in range(100)]), "none")
    (page,) = chunk.pages
    body = bytearray(page.body[0])
    body[50] ^= 1
    with pytest.raises(OSError, match="CRC"):
        read_back(tmp_path, replace(chunk, pages=(page._replace(body=(memoryview(body),)),)))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("page_bytes", [1 << 20, 1000])
def test_pages_of_pyarrow_are_found_and_read_in_another_file(
    tmp_path: Path, compression: str, page_bytes: int
) -> None:
    values = [b"", *(b"%d" % number * 5 for number in range(2000)), b""]
    content, column = written(
        tmp_path,
        values,
        compression=compression,
        data_page_size=page_bytes,
        write_batch_size=100,
        write_page_checksum=True,
    )
    chunk = find(content, column)
    assert chunk is not None
    assert joined(chunk) == content
    assert (chunk.codec, chunk.rows) == (CODECS[compression], len(values))
    assert chunk.nbytes == sum(map(len, values))
    assert chunk.unpacked_bytes == column.total_uncompressed_size
    assert (len(pages(chunk)) > 1) is (page_bytes == 1000)
    assert read_back(tmp_path, chunk) == values


OTHER_KINDS: dict[str, dict[str, Any]] = {
    "a dictionary": {"use_dictionary": True},
    "another encoding": {"column_encoding": {"data": "DELTA_LENGTH_BYTE_ARRAY"}},
    "values side by side": {"column_encoding": {"data": "DELTA_BYTE_ARRAY"}},
    "pages of the second kind": {"data_page_version": "2.0"},
    "another codec": {"compression": "snappy"},
    "gzip": {"compression": "gzip"},
}


@pytest.mark.parametrize("kind", OTHER_KINDS)
def test_pages_of_another_kind_are_left_to_pyarrow(tmp_path: Path, kind: str) -> None:
    content, column = written(tmp_path, [b"a", b"bb"] * 500, **OTHER_KINDS[kind])
    assert find(content, column) is None


class Described:
    """What a footer says of a chunk that is as we want it."""

    has_dictionary_page = False
    compression = "UNCOMPRESSED"
    encodings = ("PLAIN", "RLE")

    def __init__(self, chunk: DataChunk) -> None:
        self.num_values = chunk.rows
        self.total_uncompressed_size = chunk.unpacked_bytes


def test_pages_that_are_not_those_described_are_refused() -> None:
    chunk = encode(array([b"%d" % number * 30_000 for number in range(50)]), "none")
    content = bytes(joined(chunk))
    assert len(pages(chunk)) > 1
    described = Described(chunk)
    assert find(memoryview(content), described) is not None
    assert find(memoryview(content[:-1]), described) is None
    assert find(memoryview(content + b"\x00"), described) is None
    assert find(memoryview(content[: len(chunk.parts[0]) + len(chunk.parts[1])]), described) is None
    described.num_values += 1
    assert find(memoryview(content), described) is None


@pytest.mark.parametrize(
    "header",
    [
        {1: (thrift.I32, 0)},
        {1: (thrift.I32, 0), 2: (thrift.I32, 8), 3: (thrift.I32, -20), 5: (thrift.STRUCT, {})},
        {1: (thrift.I32, 0), 2: (thrift.I32, 8), 3: (thrift.I32, 4), 5: (thrift.I32, 7)},
        {1: (thrift.I32, 0), 2: (thrift.I32, 8), 3: (thrift.I32, 4), 5: (thrift.LIST, (thrift.I32, []))},
        {
            1: (thrift.I32, 0),
            2: (thrift.I32, 8),
            3: (thrift.I32, -20),
            5: (thrift.STRUCT, {1: (thrift.I32, 1), 2: (thrift.I32, 0)}),
        },
        {
            1: (thrift.I32, 0),
            2: (thrift.BINARY, b"8"),
            3: (thrift.BINARY, b"4"),
            5: (thrift.STRUCT, {1: (thrift.I32, 1), 2: (thrift.I32, 0)}),
        },
    ],
)
def test_a_header_that_makes_no_sense_is_refused(header: thrift.Struct) -> None:
    chunk = encode(array([b"1234"]), "none")
    assert find(memoryview(thrift.write_struct(header) + bytes(4)), Described(chunk)) is None


@given(st.data())
def test_damaged_bytes_are_refused_or_stand_for_as_many_bytes(data: st.DataObject) -> None:
    chunk = encode(array([b"one", b"", b"three"]), "none")
    content = bytearray(joined(chunk))
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    found = find(memoryview(content), Described(chunk))
    assert found is None or (found.rows, found.packed_bytes) == (3, len(content))


@pytest.mark.parametrize("compression", COMPRESSIONS)
@given(values=st.lists(st.binary(max_size=40), min_size=1, max_size=40), rows=st.data())
def test_values_that_were_taken_out_of_pages_make_pages_again(
    tmp_path_factory: pytest.TempPathFactory, compression: str, values: list[bytes], rows: st.DataObject
) -> None:
    chosen = np.array(rows.draw(st.lists(st.booleans(), min_size=len(values), max_size=len(values))))
    chosen[rows.draw(st.integers(0, len(values) - 1))] = True
    with patch.object(data_chunk, "PAGE_BYTES", 64), patch.object(plain_values, "LONG_BYTES", 0):
        found = encode(array(values), compression).values()
        assert found is not None
        kept = found.take(np.flatnonzero(chosen))
        again = encode(kept, rows.draw(st.sampled_from(COMPRESSIONS)))
    wanted = [value for value, is_chosen in zip(values, chosen, strict=True) if is_chosen]
    assert kept.array().to_pylist() == wanted
    assert read_back(tmp_path_factory.getbasetemp(), again) == wanted


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_values_are_given_if_they_are_found_faster_than_they_are_decoded(compression: str) -> None:
    for alike in ([b""] * 9, [b"one"] * 9, [b"x" * 2000] * 2000, [b"long" * 1000, b"longer" * 1000, b""]):
        values = encode(array(alike), compression).values()
        assert values is not None
        assert values.array().to_pylist() == alike
    assert encode(array([b"%d" % number for number in range(200)]), compression).values() is None


def test_values_of_pages_that_are_not_compressed_stay_where_they_are() -> None:
    chunk = encode(array([b"%7d" % number * 90_000 for number in range(9)]), "none")
    values = chunk.values()
    assert values is not None
    assert len(chunk.pages) > 1
    assert [part.obj for part in values.parts] == [page.body[0].obj for page in chunk.pages]
    assert [part.obj for part in encode(values, "none").parts[1::2]] == [part.obj for part in values.parts]
