"""The data of messages as plain pages of Parquet hold it: one value after the other, each behind its length.

A copy that wants some messages of a row group takes their bytes in this form from one file to the next.
Nothing is decoded for that, and nothing encoded.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from headwater.model.columns import Int64s

LENGTH_BYTES = 4
LONG_BYTES = 1536
"""So long are values of different lengths on average that are found one by one; shorter ones are decoded."""
_length_at = struct.Struct("<I").unpack_from


@dataclass(frozen=True, slots=True)
class PlainValues:
    """Values in pieces of memory, which others may hold as well."""

    parts: tuple[memoryview, ...]
    """All bytes, one part after the other; each ends where a value does."""
    ends: Int64s
    """Where each value begins in all parts together, and at last where the last one ends."""

    def __len__(self) -> int:
        return len(self.ends) - 1

    @property
    def nbytes(self) -> int:
        """Return how long all values are together."""
        return int(self.ends[-1]) - LENGTH_BYTES * len(self)

    def filter(self, mask: npt.NDArray[np.bool_]) -> PlainValues:
        """Return only the values where the mask is true, copied once."""
        bounds = np.cumsum([0, *map(len, self.parts)])
        rows = np.searchsorted(self.ends, bounds).tolist()
        parts = [
            _taken(part, self.ends[start : stop + 1] - bound, mask[start:stop])
            for part, bound, (start, stop) in zip(self.parts, bounds, pairwise(rows), strict=False)
        ]
        return PlainValues(tuple(filter(None, parts)), _summed(np.diff(self.ends)[mask]))

    def slice(self, start: int, length: int) -> PlainValues:
        """Return some values that follow on each other, not copied."""
        ends = self.ends[start : start + length + 1]
        return PlainValues(self.between(start, start + length), ends - ends[0])

    def between(self, start: int, stop: int) -> tuple[memoryview, ...]:
        """Return the bytes of the values from start to stop, not copied."""
        first, last = int(self.ends[start]), int(self.ends[stop])
        found, at = [], 0
        for part in self.parts:
            piece = part[max(first - at, 0) : max(last - at, 0)]
            found += [piece] if piece else []
            at += len(part)
        return tuple(found)

    def array(self) -> pa.BinaryArray:
        """Return the values as an array, copied."""
        joined = joined_parts(self.parts)
        bounds = pairwise(self.ends.tolist())
        return pa.array([joined[start + LENGTH_BYTES : stop] for start, stop in bounds], pa.binary())


def of(values: pa.BinaryArray) -> PlainValues:
    """Return an array's values, copied once."""
    lengths = pc.binary_length(values).to_numpy()
    places = np.arange(0, LENGTH_BYTES * (len(values) + 1), LENGTH_BYTES, dtype=np.int32)
    buffers = [None, pa.py_buffer(places), pa.py_buffer(lengths.astype("<u4"))]
    before = pa.Array.from_buffers(pa.binary(), len(values), buffers)
    joined = pc.binary_join_element_wise(before, values, pa.scalar(b"", pa.binary()))
    ends = _summed(lengths + np.int64(LENGTH_BYTES))
    return PlainValues((memoryview(joined.buffers()[2] or b"")[: int(ends[-1])],), ends)


def found(bodies: Sequence[memoryview], counts: Sequence[int]) -> PlainValues | None:
    """Return the values of pages that hold so many each; None if it takes too long to find them."""
    ends, at = [np.zeros(1, np.int64)], 0
    for body, count in zip(bodies, counts, strict=True):
        places = _places(body, count)
        if places is None:
            return None
        ends.append(places[1:] + at)
        at += len(body)
    return PlainValues(tuple(bodies), np.concatenate(ends))


def concat(parts: Sequence[PlainValues]) -> PlainValues:
    """Return the values of all, not copied."""
    begins = np.cumsum([0, *(int(part.ends[-1]) for part in parts)])
    ends = [part.ends[1:] + begin for part, begin in zip(parts, begins, strict=False)]
    joined = tuple(each for part in parts for each in part.parts)
    return PlainValues(joined, np.concatenate([np.zeros(1, np.int64), *ends]))


def joined_parts(parts: Sequence[memoryview]) -> memoryview:
    """Return bytes that lie in parts as one piece, not copied if they are one."""
    return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))


def _places(body: memoryview, count: int) -> Int64s | None:
    """Return where each value begins in a page, and at last where all end; None if that takes too long."""
    if not count or len(body) < LENGTH_BYTES * count:
        return None
    (length,) = _length_at(body)
    width = LENGTH_BYTES + length
    if width * count == len(body) and (np.ndarray(count, "<u4", body, 0, width) == length).all():
        return np.arange(0, len(body) + 1, width)
    return _walked(body, count) if len(body) >= LONG_BYTES * count else None


def _walked(body: memoryview, count: int) -> Int64s | None:
    """Return what `_places` does, from one length to the next; None if the last one ends elsewhere."""
    places, at, last = [0], 0, len(body) - LENGTH_BYTES
    while at <= last:
        at += LENGTH_BYTES + _length_at(body, at)[0]
        places.append(at)
    return np.array(places) if at == len(body) and len(places) == count + 1 else None


def _taken(part: memoryview, ends: Int64s, mask: npt.NDArray[np.bool_]) -> memoryview:
    """Return the bytes of the values where the mask is true."""
    if not mask.any():
        return memoryview(b"")
    width = int(ends[1])
    if width * len(mask) == len(part) and (np.diff(ends) == width).all():
        rows = np.frombuffer(part, np.uint8).reshape(len(mask), width)
        return rows.take(np.flatnonzero(mask), axis=0).data.cast("B")
    # Neighbours are taken together.
    turns = np.flatnonzero(np.diff(mask, prepend=False, append=False))
    places = ends[turns].tolist()
    return memoryview(b"".join([part[a:b] for a, b in zip(places[::2], places[1::2], strict=True)]))


def _summed(widths: Int64s) -> Int64s:
    """Return where values of these widths begin, and at last where they end."""
    ends = np.zeros(len(widths) + 1, np.int64)
    np.cumsum(widths, out=ends[1:])
    return ends
