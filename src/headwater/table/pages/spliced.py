"""A Parquet file whose data column is made of finished pages; pyarrow writes everything else.

pyarrow accepts no finished pages, and leaves no column to other writers. So it writes a file without the data
column. This module appends the pages after each row group and edits the footer before it is written:

    what pyarrow writes          what is in the file
    +----------------------+     +----------------------+  0
    | PAR1                 |     | PAR1                 |
    +----------------------+     +----------------------+  4
    | group 0: seq, ts, …  |     | group 0: seq, ts, …  |  same offsets as pyarrow's
    +----------------------+     +----------------------+
    | group 1: seq, ts, …  |     | group 0: data pages  |  P0 bytes, from a DataChunk
    +----------------------+     +----------------------+
    | footer               |     | group 1: seq, ts, …  |  pyarrow's offsets + P0
    | length(4) PAR1       |     +----------------------+
    +----------------------+     | group 1: data pages  |  P1 bytes
                                 +----------------------+
                                 | edited footer        |  Thrift, compact protocol
                                 | length(4) PAR1       |
                                 +----------------------+

The edited footer has one more schema element (`data`, required, BYTE_ARRAY) and one more column chunk in each
row group. Offsets in group n are larger by P0 + … + P(n-1), and the sizes of group n include its Pn bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from headwater.table.checked_bytes import ChecksumSink
from headwater.table.pages import thrift
from headwater.table.pages.data_chunk import CODECS, DataChunk
from headwater.table.pages.thrift import BINARY, I32, I64, LIST, STRUCT, Struct
from headwater.table.schema import DATA, FILE, OTHERS

assert FILE.names[-1] == DATA, "pages follow what pyarrow writes of a row group"

_TAIL = struct.Struct("<I4s")
_MAGIC = b"PAR1"
_BYTE_ARRAY = 6
_REQUIRED = 0
_PLAIN, _RLE = 0, 3
_DATA_PAGE_PLAIN = (_PLAIN, _RLE)

# Fields of the structs that a footer is made of.
_SCHEMA, _GROUPS, _ORDERS = 2, 4, 7
_ELEMENT_TYPE, _ELEMENT_REPETITION, _ELEMENT_NAME, _ELEMENT_CHILDREN = 1, 3, 4, 5
_GROUP_COLUMNS, _GROUP_BYTES, _GROUP_OFFSET, _GROUP_PACKED_BYTES = 1, 2, 5, 6
_CHUNK_FILE_OFFSET, _CHUNK_META = 2, 3
_META_TYPE, _META_ENCODINGS, _META_PATH, _META_CODEC, _META_VALUES = 1, 2, 3, 4, 5
_META_BYTES, _META_PACKED_BYTES, _META_OFFSET = 6, 7, 9
_META_PLACES = (_META_OFFSET, 10, 11)
"""Fields with the offsets of the data pages, an index page and a dictionary."""


class _Written(NamedTuple):
    """What the footer says about a chunk; the chunk's bytes are not kept."""

    column: Struct
    unpacked_bytes: int
    packed_bytes: int


class SplicedWriter:
    """Writes row groups, each with its data as finished pages."""

    def __init__(self, sink: ChecksumSink, **options: Any) -> None:
        self._sink = sink
        self._writer = pq.ParquetWriter(pa.PythonFile(sink, mode="w"), OTHERS, **options)
        self._chunks: list[_Written] = []
        self._is_whole = False
        """Whether the last row group was written with all of its pages."""

    def write(self, others: pa.Table, chunk: DataChunk) -> None:
        """Write one row group; `others` has every column but the data."""
        assert others.num_rows == chunk.rows
        self._is_whole = False
        self._writer.write_table(others, row_group_size=max(chunk.rows, 1))
        self._chunks.append(
            _Written(_column(self._sink.size, chunk), chunk.unpacked_bytes, chunk.packed_bytes)
        )
        for part in chunk.parts:
            self._sink.write(part)
        self._is_whole = True

    def add_key_value_metadata(self, metadata: Mapping[str, str]) -> None:
        """Add these pairs to the footer."""
        self._writer.add_key_value_metadata(dict(metadata))

    def close(self) -> None:
        """Write the footer, unless a write failed before."""
        is_whole, self._is_whole = self._is_whole, False
        self._sink.hold()
        self._writer.close()
        written = self._sink.release()
        if not is_whole:
            return
        length, _ = _TAIL.unpack(written[-_TAIL.size :])
        start = len(written) - _TAIL.size - length
        footer, _ = thrift.read_struct(written, start)
        self._amend(footer)
        amended = thrift.write_struct(footer)
        self._sink.write(written[:start] + amended + _TAIL.pack(len(amended), _MAGIC))

    def _amend(self, footer: Struct) -> None:
        """Add the data to the schema and to each row group."""
        _, elements = footer[_SCHEMA][1]
        root = elements[0]
        root[_ELEMENT_CHILDREN] = (I32, root[_ELEMENT_CHILDREN][1] + 1)
        elements.append(
            {
                _ELEMENT_TYPE: (I32, _BYTE_ARRAY),
                _ELEMENT_REPETITION: (I32, _REQUIRED),
                _ELEMENT_NAME: (BINARY, DATA.encode()),
            }
        )
        if _ORDERS in footer:
            _, orders = footer[_ORDERS][1]
            orders.append(orders[0])
        _, groups = footer[_GROUPS][1]
        spliced = 0
        for group, chunk in zip(groups, self._chunks, strict=True):
            _, columns = group[_GROUP_COLUMNS][1]
            _add(group, spliced, _GROUP_OFFSET)
            for column in columns:
                _add(column[_CHUNK_META][1], spliced, *_META_PLACES)
            columns.append(chunk.column)
            _add(group, chunk.unpacked_bytes, _GROUP_BYTES)
            _add(group, chunk.packed_bytes, _GROUP_PACKED_BYTES)
            spliced += chunk.packed_bytes


def _add(fields: Struct, number: int, *names: int) -> None:
    """Add a number to each of these fields that is present."""
    for name in names:
        if name in fields:
            kind, value = fields[name]
            fields[name] = (kind, value + number)


def _column(place: int, chunk: DataChunk) -> Struct:
    """Return the description of a chunk in its row group."""
    meta: Struct = {
        _META_TYPE: (I32, _BYTE_ARRAY),
        _META_ENCODINGS: (LIST, (I32, list(_DATA_PAGE_PLAIN))),
        _META_PATH: (LIST, (BINARY, [DATA.encode()])),
        _META_CODEC: (I32, CODECS[chunk.codec]),
        _META_VALUES: (I64, chunk.rows),
        _META_BYTES: (I64, chunk.unpacked_bytes),
        _META_PACKED_BYTES: (I64, chunk.packed_bytes),
        _META_OFFSET: (I64, place),
    }
    return {_CHUNK_FILE_OFFSET: (I64, 0), _CHUNK_META: (STRUCT, meta)}
