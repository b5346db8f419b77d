"""A data file knows its place in the stream."""

from __future__ import annotations

import pytest

from headwater.model.adopted import Adopted
from headwater.model.copied import Copied
from headwater.table.datafile import DataFile, FileContent


def file(first: int, last: int, base: int = 0) -> DataFile:
    return DataFile("data/x.parquet", base, last - first + 1, first, last, 10, 0, 0)


def test_another_base_moves_all_sequences() -> None:
    moved = file(1, 5, base=1).at(101, "y")
    assert (moved.base_seq, moved.first_seq, moved.last_seq, moved.path) == (101, 101, 105, "y")


@pytest.mark.parametrize(
    ("one", "two", "overlap"),
    [(file(1, 5), file(5, 6), True), (file(1, 5), file(6, 7), False), (file(1, 9), file(3, 4), True)],
)
def test_files_overlap_when_a_sequence_is_in_both(one: DataFile, two: DataFile, overlap: bool) -> None:
    assert one.overlaps(two) is overlap
    assert two.overlaps(one) is overlap


def test_a_file_without_rows_cannot_be_made() -> None:
    with pytest.raises(AssertionError):
        DataFile("x", 0, 0, 1, 1, 10, 0, 0)


def test_a_base_above_the_first_sequence_cannot_be_made() -> None:
    with pytest.raises(AssertionError):
        DataFile("x", 2, 1, 1, 1, 10, 0, 0)


def test_a_content_is_placed_in_a_stream_with_times_widened_to_microseconds() -> None:
    content = FileContent(3, 2, 9, 1_500, 2_001, "a", "c", 1, 4096)
    file = DataFile.of("f", 100, content)
    assert (file.first_seq, file.last_seq, file.rows, file.size_bytes) == (102, 109, 3, 4096)
    assert (file.first_ts, file.last_ts) == (1_000, 2_999)
    assert (file.first_subject, file.last_subject, file.headerless_rows, file.copied) == ("a", "c", 1, None)


def test_a_linked_file_has_the_time_of_its_copy_and_keeps_those_of_its_origin() -> None:
    content = FileContent(3, 0, 2, 1_500, 2_001, "a", "c", 1, 4096)
    file = DataFile.of("f", 100, content, Copied("ORIGIN", "id", 7, 5_000_000, 0, 0, 0))
    assert (file.first_ts, file.last_ts) == (5_000_000_000, 5_000_000_000)
    assert file.copied is not None
    assert (file.copied.first_ts, file.copied.last_ts, file.copied.with_headers) == (1_000, 2_999, 2)
    assert (file.copied.source, file.copied.source_base) == ("ORIGIN", 7)


def test_the_content_of_an_adopted_file_has_the_times_that_the_file_has() -> None:
    adopted = Adopted("f", 3, 0, 4, 1_500, 2_001, 99, 2, 4096, "a", "c", {})
    assert FileContent.of_adopted(adopted) == FileContent(3, 0, 4, 1_500, 2_001, "a", "c", 1, 4096)
    linked = Adopted(
        *("f", 3, 0, 4, 5_000, 5_000, 99, 3, 4096, "a", "c", {}),
        copied=Copied("ORIGIN", "id", 7, 5, 1_500, 2_001, 2),
    )
    assert FileContent.of_adopted(linked) == FileContent.of_adopted(adopted)
