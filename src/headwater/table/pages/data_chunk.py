"""The data of a row group's messages as pages of Parquet, which a file can have as they are.

Pages are found in other files, or made here: pyarrow makes them as well, and takes longer.
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
"""Parquet's numbers of the codecs that such pages may have; by LZ4 pyarrow writes the newer of two kinds."""
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
    """Values of some messages, as a file has them."""

    header: memoryview
    body: tuple[memoryview, ...]
    """The bytes behind the header, one part after the other."""
    unpacked_bytes: int
    """How long they would be if they were not compressed."""
    rows: int


@dataclass(frozen=True, slots=True)
class DataChunk:
    """Pages of data, none of them a dictionary's, every value with its length before it."""

    pages: tuple[Page, ...]
    codec: str

    @property
    def parts(self) -> list[memoryview]:
        """Return the bytes, one part after the other."""
        return [part for page in self.pages for part in (page.header, *page.body)]

    @property
    def rows(self) -> int:
        """Return how many values there are."""
        return sum(page.rows for page in self.pages)

    @property
    def nbytes(self) -> int:
        """Return how long all values are together."""
        # No levels stand before the values, since each message has data, if none of a length.
        return sum(page.unpacked_bytes - LENGTH_BYTES * page.rows for page in self.pages)

    @property
    def packed_bytes(self) -> int:
        """Return how long the pages are."""
        return sum(map(len, self.parts))

    @property
    def unpacked_bytes(self) -> int:
        """Return how long the pages would be if nothing were compressed, their headers included."""
        return sum(len(page.header) + page.unpacked_bytes for page in self.pages)

    def values(self) -> PlainValues | None:
        """Return the values, not copied unless they are compressed; None if to decode them is faster."""
        packer = pa.Codec(_NAMES[self.codec]) if self.codec in _NAMES else None
        bodies = [_unpacked(packer, page) for page in self.pages]
        return plain_values.found(bodies, [page.rows for page in self.pages])


def find(content: memoryview, column: Any) -> DataChunk | None:
    """Return the chunk that a footer describes and that has these bytes; None if it is of another kind."""
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
    # A view has the length that pyarrow made room for, not the one that it came to.
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
    """Yield the pages; ThriftError if not all of them are plain, or something else stands there."""
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
