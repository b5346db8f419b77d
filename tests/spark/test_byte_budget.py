"""A micro-batch ends where about as many bytes are stored as it may have."""

from __future__ import annotations

from headwater.spark.byte_budget import reach
from headwater.spark.read_range import ReadRange
from headwater.table.datafile import DataFile

FILE = ReadRange(1, 100, DataFile("x", 0, 100, 1, 100, 10_000, 0, 0))
"""100 bytes for each message."""
TAIL = ReadRange(101, 110)


def test_bytes_are_counted_in_files_and_behind_them() -> None:
    assert reach([FILE, TAIL], 1_000, 50.0) == 10
    assert reach([FILE, TAIL], 10_000, 50.0) == 100
    assert reach([FILE, TAIL], 10_149, 50.0) == 102
    assert reach([FILE, TAIL], 10_500, 50.0) is None
    assert reach([], 1, 1.0) is None


def test_a_message_that_is_larger_than_the_budget_is_still_read() -> None:
    assert reach([FILE], 1, 1.0) == 1
    assert reach([ReadRange(7, 9)], 1, 8_000_000.0) == 7
