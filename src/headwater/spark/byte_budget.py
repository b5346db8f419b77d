"""How far a micro-batch reaches with a number of bytes, estimated from the sizes of files and messages."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.spark.read_range import ReadRange


def reach(ranges: Iterable[ReadRange], budget: int, average: float) -> int | None:
    """Return the last sequence that fits, at least the first of the ranges; None if all fit.

    A file's bytes are spread evenly over its sequences. `average` is the size of a message in no file.
    """
    left = float(budget)
    for place, part in enumerate(ranges):
        each = average
        if part.file is not None:
            each = part.file.size_bytes / (part.file.last_seq - part.file.first_seq + 1)
        count = part.last_seq - part.first_seq + 1
        if each * count > left:
            fitting = int(left / each)
            return part.first_seq + max(fitting, 0 if place else 1) - 1
        left -= each * count
    return None
