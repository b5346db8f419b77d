"""A data file knows its place in the stream."""

from __future__ import annotations

import pytest

from headwater.table.datafile import DataFile


def file(first: int, last: int, base: int = 0) -> DataFile:
    return DataFile("data/x.parquet", base, last - first + 1, first, last, 10, 0, 0)


def test_another_base_moves_all_sequences() -> None:
    moved = file(1, 5, base=1).at(101, "y")
    assert (moved.base_seq, moved.first_seq, moved.last_seq, moved.path) == (101, 101, 105, "y")


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [(file(1, 5), file(5, 6), True), (file(1, 5), file(6, 7), False), (file(1, 9), file(3, 4), True)],
)
def test_files_overlap_when_a_sequence_lies_in_both(one: DataFile, two: DataFile, overlap: bool) -> None:
    assert one.overlaps(two) is overlap
    assert two.overlaps(one) is overlap


def test_a_file_without_rows_cannot_be_made() -> None:
    with pytest.raises(AssertionError):
        DataFile("x", 0, 0, 1, 1, 10, 0, 0)


def test_a_base_above_the_first_sequence_cannot_be_made() -> None:
    with pytest.raises(AssertionError):
        DataFile("x", 2, 1, 1, 1, 10, 0, 0)
