"""The data column of a row group as finished Parquet pages.

Pages are taken from other files, or encoded here, which is faster than pyarrow. A chunk is a series of pages.
A page, with `n` values:

    +-------------------+----------------------------------------------------------+
    | PageHeader        | body (`compressed_size` bytes)                           |
    | (Thrift, compact) |                                                          |
    +-------------------+----------------------------------------------------------+
      1 type = 0 (DATA_PAGE)        body, uncompressed (`uncompressed_size` bytes):
      2 uncompressed_size           +--------+---------+--------+---------+-----+
      3 compressed_size             | len 0  | value 0 | len 1  | value 1 | …   |  n times
      4 crc (CRC-32 of the body)    | u32 LE | len 0 B | u32 LE | len 1 B |     |
      5 DataPageHeader              +--------+---------+--------+---------+-----+
          1 num_values = n          The column is required and not nested, so no levels
          2 encoding = 0 (PLAIN)    precede the values. The body is compressed as a whole
          3, 4 levels = 3 (RLE)     by the chunk's codec, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from headwater.checksum import crc32
from headwater.table.pages import plain_values, thrift
from headwater.table.pages.plain_values import LENGTH_BYTES, PlainValues, joined_parts
from headwater.table.pages.thrift import I32, STRUCT, Struct, ThriftError

CODECS = {"UNCOMPRESSED": 0, "ZSTD": 6, "LZ4": 7}
"""Parquet's numbers of the supported codecs; for LZ4, pyarrow writes LZ4_RAW, the newer one."""
PAGE_BYTES = 1 << 20
_PACKERS = {"none": "UNCOMPRESSED", "zstd": "ZSTD", "lz4": "LZ4"}
_NAMES = {"LZ4": "lz4_raw", "ZSTD": "zstd"}
_ENCODINGS = {"PLAIN", "RLE"}

# Fields of the structs before a page, and the values they have here.
_PAGE_TYPE, _UNPACKED_SIZE, _PACKED_SIZE, _CRC, _PAGE = 1, 2, 3, 4, 5
_PAGE_VALUES, _PAGE_ENCODING, _PAGE_DEFINITIONS, _PAGE_REPETITIONS = 1, 2, 3, 4
_DATA_PAGE = _PLAIN = 0
_RLE = 3


class Page(NamedTuple):
    """One data page, as it is in a file."""

    header: memoryview
    body: tuple[memoryview, ...]
    """The bytes after the header, in parts."""
    unpacked_bytes: int
    """The size of the body before compression."""
    rows: int


@dataclass(frozen=True, slots=True)
class DataChunk:
    """Plain data pages of one row group, without a dictionary."""

    pages: tuple[Page, ...]
    codec: str

    @property
    def parts(self) -> list[memoryview]:
        """Return all bytes, in parts."""
        return [part for page in self.pages for part in (page.header, *page.body)]

    @property
    def rows(self) -> int:
        """Return the number of values."""
        return sum(page.rows for page in self.pages)

    @property
    def nbytes(self) -> int:
        """Return the total size of the values."""
        # No levels precede the values: every message has data, even if it is empty.
        return sum(page.unpacked_bytes - LENGTH_BYTES * page.rows for page in self.pages)

    @property
    def packed_bytes(self) -> int:
        """Return the size of the pages."""
        return sum(map(len, self.parts))

    @property
    def unpacked_bytes(self) -> int:
        """Return the size of the pages before compression, headers included."""
        return sum(len(page.header) + page.unpacked_bytes for page in self.pages)

    def values(self) -> PlainValues | None:
        """Return the values, copied only if they are compressed; None if decoding them is faster."""
        packer = pa.Codec(_NAMES[self.codec]) if self.codec in _NAMES else None
        bodies = [_unpacked(packer, page) for page in self.pages]
        return plain_values.found(bodies, [page.rows for page in self.pages])


def find(content: memoryview, column: Any) -> DataChunk | None:
    """Return the chunk with these bytes that a footer describes; None if it is not supported."""
    if (
        column.has_dictionary_page
        or column.compression not in CODECS
        or not _ENCODINGS.issuperset(column.encodings)
    ):
        return None
    try:
        chunk = DataChunk(tuple(_pages(content)), column.compression)
    except (ThriftError, LookupError, TypeError):
        return None
    return chunk if chunk.rows == column.num_values else None


def encode(
    values: pa.BinaryArray | PlainValues, compression: str, compression_level: int | None = None
) -> DataChunk:
    """Return values as pages."""
    codec = _PACKERS[compression]
    packer = pa.Codec(_NAMES[codec], compression_level) if codec in _NAMES else None
    plain = values if isinstance(values, PlainValues) else plain_values.of(values)
    ends, start, pages = plain.ends, 0, []
    while start < len(plain):
        full = int(np.searchsorted(ends, ends[start] + PAGE_BYTES, side="right")) - 1
        stop = min(max(full, start + 1), len(plain))
        first, last = int(ends[start]), int(ends[stop])
        body = plain.between(first, last)
        if packer is not None:
            body = (_packed(packer, joined_parts(body)),)
        pages.append(_page(body, last - first, stop - start))
        start = stop
    return DataChunk(tuple(pages), codec)


def _packed(packer: pa.Codec, page: memoryview) -> memoryview:
    """Return a page compressed."""
    packed = packer.compress(page)
    # The view has the size that pyarrow reserved, not the compressed size.
    return memoryview(packed)[: packed.size]


def _unpacked(packer: pa.Codec | None, page: Page) -> memoryview:
    """Return the values of a page."""
    body = joined_parts(page.body)
    return body if packer is None else memoryview(packer.decompress(body, page.unpacked_bytes))


def _page(body: tuple[memoryview, ...], unpacked: int, rows: int) -> Page:
    crc = 0
    for part in body:
        crc = crc32(part, crc)
    header: Struct = {
        _PAGE_TYPE: (I32, _DATA_PAGE),
        _UNPACKED_SIZE: (I32, unpacked),
        _PACKED_SIZE: (I32, sum(map(len, body))),
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
    return Page(memoryview(thrift.write_struct(header)), body, unpacked, rows)


def _pages(content: memoryview) -> Iterator[Page]:
    """Yield the pages; raise ThriftError unless all bytes are plain data pages."""
    at = 0
    while at < len(content):
        header, start = thrift.read_struct(content, at)
        page, size, unpacked = header[_PAGE][1], header[_PACKED_SIZE][1], header[_UNPACKED_SIZE][1]
        rows = page[_PAGE_VALUES][1]
        if header[_PAGE_TYPE][1] != _DATA_PAGE or page[_PAGE_ENCODING][1] != _PLAIN:
            raise ThriftError("these pages are not plain")
        if not 0 <= size <= len(content) - start or unpacked < LENGTH_BYTES * rows:
            raise ThriftError("a page is cut short")
        yield Page(content[at:start], (content[start : start + size],), unpacked, rows)
        at = start + size
