"""Copies many slices out of one buffer in one call."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headwater.model.columns import Buffer, Int64s


def taken_out(buffer: Buffer, starts: Int64s, stops: Int64s) -> pa.BinaryArray:
    """Return the bytes between each start and its stop, copied; they ascend, and none overlaps another."""
    count = len(starts)
    # For Arrow, the slices are the odd ones of values that fill the buffer without a gap.
    ends = np.empty(2 * count + 1, np.int32)
    ends[0] = 0
    ends[1::2] = starts
    ends[2::2] = stops
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(buffer)]
    return pa.Array.from_buffers(pa.binary(), 2 * count, buffers).take(_odd(count))


def _odd(count: int) -> pa.Array:
    return pa.array(np.arange(1, 2 * count, 2, dtype=np.int32))
