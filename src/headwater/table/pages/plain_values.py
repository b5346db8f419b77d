"""Message data in Parquet's PLAIN encoding: each value after its length (four bytes, little-endian).

A copy that wants some messages of a row group moves their bytes in this form from one file to the next.
Nothing is decoded or encoded for that. `data_chunk` draws the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.columns import Int64s
from headwater.table.pages.segments import taken_out

LENGTH_BYTES = 4
LONG_BYTES = 1536
"""So long are values of different lengths on average that are found one by one; shorter ones are decoded."""
_length_at = struct.Struct("<I").unpack_from


@dataclass(frozen=True, slots=True)
class PlainValues:
    """Values in pieces of memory, which others may hold as well."""

    parts: tuple[memoryview, ...]
    """All bytes, one part after the other; each ends where a value does."""
    widths: Int64s
    """How many bytes each value takes, its length included."""

    def __len__(self) -> int:
        return len(self.widths)

    @property
    def nbytes(self) -> int:
        """Return how long all values are together."""
        return sum(map(len, self.parts)) - LENGTH_BYTES * len(self)

    @property
    def ends(self) -> Int64s:
        """Return where each value begins in all parts together, and at last where the last one ends."""
        ends = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.widths, out=ends[1:])
        return ends

    def take(self, rows: Int64s) -> PlainValues:
        """Return only the values of these rows, which ascend; copied once."""
        if len(self.parts) == 1:
            return PlainValues((_taken(self.parts[0], self.widths, rows),), self.widths[rows])
        bounds = np.searchsorted(self.ends, np.cumsum([0, *map(len, self.parts)]))
        cuts = np.searchsorted(rows, bounds)
        return concat(
            [
                PlainValues((part,), self.widths[start:stop]).take(rows[first:last] - start)
                for part, (start, stop), (first, last) in zip(
                    self.parts, pairwise(bounds), pairwise(cuts), strict=True
                )
                if last > first
            ]
        )

    def slice(self, start: int, length: int) -> PlainValues:
        """Return some values that follow on each other, not copied."""
        first, last = (int(self.widths[:row].sum()) for row in (start, start + length))
        return PlainValues(self.between(first, last), self.widths[start : start + length])

    def between(self, start: int, stop: int) -> tuple[memoryview, ...]:
        """Return the bytes from one place to another, not copied."""
        found, at = [], 0
        for part in self.parts:
            piece = part[max(start - at, 0) : max(stop - at, 0)]
            found += [piece] if piece else []
            at += len(part)
        return tuple(found)

    def array(self) -> pa.BinaryArray:
        """Return the values as an array, copied."""
        ends = self.ends
        return taken_out(joined_parts(self.parts), ends[:-1] + LENGTH_BYTES, ends[1:])


def of(values: pa.BinaryArray) -> PlainValues:
    """Return an array's values, copied once."""
    lengths = pc.binary_length(values).to_numpy()
    places = np.arange(0, LENGTH_BYTES * (len(values) + 1), LENGTH_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(lengths.astype("<u4"))]
    before = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    joined = pc.binary_join_element_wise(before, values, pa.scalar(b"", pa.binary()))
    widths = lengths.astype(np.int64) + LENGTH_BYTES
    return PlainValues((memoryview(joined.buffers()[2] or b"")[: int(widths.sum())],), widths)


def found(bodies: Sequence[memoryview], counts: Sequence[int]) -> PlainValues | None:
    """Return the values of pages with these numbers of values; None if it takes too long to find them."""
    parts = []
    for body, count in zip(bodies, counts, strict=True):
        widths = _widths(body, count)
        if widths is None:
            return None
        parts.append(PlainValues((body,), widths))
    return concat(parts)


def concat(parts: Sequence[PlainValues]) -> PlainValues:
    """Return the values of all, not copied."""
    if len(parts) == 1:
        return parts[0]
    joined = tuple(each for part in parts for each in part.parts)
    return PlainValues(joined, np.concatenate([np.zeros(0, np.int64), *(part.widths for part in parts)]))


def joined_parts(parts: Sequence[memoryview]) -> memoryview:
    """Return the parts as one piece, copied only if there are several."""
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _widths(body: memoryview, count: int) -> Int64s | None:
    """Return how many bytes each value of a page takes; None if it takes too long to find that."""
    if not count or len(body) < LENGTH_BYTES * count:
        return None
    (length,) = _length_at(body)
    width = LENGTH_BYTES + length
    if width * count == len(body) and (np.ndarray(count, "<u4", body, 0, width) == length).all():
        return np.full(count, width)
    return _walked(body, count) if len(body) >= LONG_BYTES * count else None


def _walked(body: memoryview, count: int) -> Int64s | None:
    """Return the same as `_widths`, found value by value; None if the last one ends too early or late."""
    widths, at, last = [], 0, len(body) - LENGTH_BYTES
    while at <= last:
        width = LENGTH_BYTES + _length_at(body, at)[0]
        widths.append(width)
        at += width
    return np.array(widths) if at == len(body) and len(widths) == count else None


def _taken(part: memoryview, widths: Int64s, rows: Int64s) -> memoryview:
    """Return the bytes of the values of these rows."""
    if not len(rows):
        return memoryview(b"")
    width = int(widths[0])
    if np.count_nonzero(widths == width) == len(widths):
        values = np.frombuffer(part, np.uint8).reshape(len(widths), width)
        return values.take(rows, axis=0).data.cast("B")
    # Neighbours are taken together.
    breaks = np.flatnonzero(np.diff(rows) > 1)
    ends = PlainValues((part,), widths).ends
    starts = ends[rows[np.concatenate(([0], breaks + 1))]].tolist()
    stops = ends[rows[np.concatenate((breaks, [-1]))] + 1].tolist()
    return memoryview(b"".join([part[a:b] for a, b in zip(starts, stops, strict=True)]))
