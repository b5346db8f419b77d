"""The data of a row group's messages as pages of Parquet, which a file can have as they are.

Pages are found in other files, or made here: pyarrow makes them as well, and takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.checksum import crc32
from headwater.table import thrift
from headwater.table.thrift import I32, STRUCT, Struct

CODECS = {"UNCOMPRESSED": 0, "ZSTD": 6, "LZ4": 7}
"""Parquet's numbers of the codecs that such pages may have; by LZ4 pyarrow writes the newer of two kinds."""
PAGE_BYTES = 1 << 20
_PACKERS = {"none": "UNCOMPRESSED", "zstd": "ZSTD", "lz4": "LZ4"}
_NAMES = {"LZ4": "lz4_raw", "ZSTD": "zstd"}
_ENCODINGS = {"PLAIN", "RLE"}
_LENGTH_BYTES = 4

# Fields of the structs before a page, and the values they have here.
_PAGE_TYPE, _UNPACKED_SIZE, _PACKED_SIZE, _CRC, _PAGE = 1, 2, 3, 4, 5
_PAGE_VALUES, _PAGE_ENCODING, _PAGE_DEFINITIONS, _PAGE_REPETITIONS = 1, 2, 3, 4
_DATA_PAGE = _PLAIN = 0
_RLE = 3


@dataclass(frozen=True, slots=True)
class DataChunk:
    """Pages of data, none of them a dictionary's, every value with its length before it."""

    parts: tuple[memoryview, ...]
    """The bytes, one after the other."""
    codec: str
    rows: int
    unpacked_bytes: int
    """How long the pages would be if nothing were compressed, their headers included."""
    nbytes: int
    """How long all values are together."""

    @property
    def packed_bytes(self) -> int:
        """Return how long the pages are."""
        return sum(map(len, self.parts))


def find(content: memoryview, column: Any) -> DataChunk | None:
    """Return the chunk that a footer describes and that has these bytes; None if it is of another kind."""
    if (
        column.has_dictionary_page
        or column.compression not in CODECS
        or not _ENCODINGS.issuperset(column.encodings)
    ):
        return None
    try:
        nbytes = _value_bytes(content, column.num_values)
    except (thrift.ThriftError, LookupError, TypeError):
        return None
    if nbytes is None:
        return None
    return DataChunk(
        (content,), column.compression, column.num_values, column.total_uncompressed_size, nbytes
    )


def encode(values: pa.BinaryArray, compression: str, compression_level: int | None = None) -> DataChunk:
    """Return values as pages."""
    codec = _PACKERS[compression]
    packer = pa.Codec(_NAMES[codec], compression_level) if codec in _NAMES else None
    lengths = pc.binary_length(values).to_numpy()
    ends = np.zeros(len(values) + 1, np.int64)
    np.cumsum(lengths + _LENGTH_BYTES, out=ends[1:])
    plain = _plain(values, lengths)
    parts: list[memoryview] = []
    start, unpacked = 0, 0
    while start < len(values):
        full = int(np.searchsorted(ends, ends[start] + PAGE_BYTES, side="right")) - 1
        stop = min(max(full, start + 1), len(values))
        page = plain[ends[start] : ends[stop]]
        body = page if packer is None else _packed(packer, page)
        header = memoryview(thrift.write_struct(_header(len(page), body, stop - start)))
        parts += (header, body)
        unpacked += len(header) + len(page)
        start = stop
    return DataChunk(tuple(parts), codec, len(values), unpacked, int(lengths.sum()))


def _packed(packer: pa.Codec, page: memoryview) -> memoryview:
    """Return a page compressed."""
    packed = packer.compress(page)
    # A view has the length that pyarrow made room for, not the one that it came to.
    return memoryview(packed)[: packed.size]


def _plain(values: pa.BinaryArray, lengths: Any) -> memoryview:
    """Return all values, each behind its length."""
    places = np.arange(0, _LENGTH_BYTES * (len(values) + 1), _LENGTH_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(lengths.astype("<u4"))]
    before = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    joined = pc.binary_join_element_wise(before, values, pa.scalar(b"", pa.binary()))
    return memoryview(joined.buffers()[2] or b"")[: values_end(joined)]


def values_end(values: pa.BinaryArray) -> int:
    """Return where the last value ends in the buffer of all, which begins with the first."""
    return int(np.frombuffer(values.buffers()[1], np.int32)[len(values)])


def _header(unpacked: int, body: memoryview, rows: int) -> Struct:
    crc = crc32(body)
    return {
        _PAGE_TYPE: (I32, _DATA_PAGE),
        _UNPACKED_SIZE: (I32, unpacked),
        _PACKED_SIZE: (I32, len(body)),
        _CRC: (I32, crc - (1 << 32) if crc >> 31 else crc),
        _PAGE: (
            STRUCT,
            {
                _PAGE_VALUES: (I32, rows),
                _PAGE_ENCODING: (I32, _PLAIN),
                _PAGE_DEFINITIONS: (I32, _RLE),
                _PAGE_REPETITIONS: (I32, _RLE),
            },
        ),
    }


def _value_bytes(content: memoryview, rows: int) -> int | None:
    """Return how long the values of all pages are together, None if these are no plain pages of so many."""
    at, nbytes, values = 0, 0, 0
    while at < len(content):
        header, at = thrift.read_struct(content, at)
        page = header.get(_PAGE)
        if header[_PAGE_TYPE][1] != _DATA_PAGE or page is None or page[1][_PAGE_ENCODING][1] != _PLAIN:
            return None
        size = header[_PACKED_SIZE][1]
        if size < 0:
            return None
        values += page[1][_PAGE_VALUES][1]
        # No levels stand before the values, since each message has data, if none of a length.
        nbytes += header[_UNPACKED_SIZE][1] - _LENGTH_BYTES * page[1][_PAGE_VALUES][1]
        at += size
    return nbytes if at == len(content) and values == rows else None
