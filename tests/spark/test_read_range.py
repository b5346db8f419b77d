"""A stream is cut so that every live message is read once, from a file where there is one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.spark.read_range import ReadRange, StreamSnapshot, ordered, ranges_of
from headwater.table.datafile import DataFile


def file_at(first: int, last: int) -> DataFile:
    """Return a file that holds these sequences."""
    return DataFile(f"{first}.parquet", 0, last - first + 1, first, last, 100, 0, 0)


def test_what_no_file_holds_is_asked_for_before_between_and_behind_the_files() -> None:
    files = ordered([file_at(20, 29), file_at(5, 9)])
    ranges = ranges_of(StreamSnapshot(1, 40, files), 100)
    assert [(part.first_seq, part.last_seq, part.file is not None) for part in ranges] == [
        (1, 4, False),
        (5, 9, True),
        (10, 19, False),
        (20, 29, True),
        (30, 40, False),
    ]


def test_long_ranges_are_shared_out() -> None:
    assert ranges_of(StreamSnapshot(3, 9), 3) == [ReadRange(3, 5), ReadRange(6, 8), ReadRange(9, 9)]


def test_without_anybody_to_ask_there_are_files_alone() -> None:
    ranges = ranges_of(StreamSnapshot(1, 9, (file_at(5, 9),), asked=False), 100)
    assert ranges == [ReadRange(5, 9, file_at(5, 9))]


def test_files_and_ranges_of_removed_messages_alone_are_not_read() -> None:
    extent = StreamSnapshot(1, 30, (file_at(1, 10), file_at(21, 30)), BitMap64(range(1, 21)))
    assert ranges_of(extent, 100) == [ReadRange(21, 30, file_at(21, 30))]


def test_a_range_of_a_file_knows_what_was_removed_in_it() -> None:
    (part,) = ranges_of(StreamSnapshot(1, 10, (file_at(1, 10),), BitMap64([3, 4, 99])), 100)
    assert list(BitMap64.deserialize(part.removed)) == [3, 4]


def test_an_empty_stream_has_no_ranges() -> None:
    assert ranges_of(StreamSnapshot(1, 0), 100) == []
    assert ranges_of(StreamSnapshot(8, 7, (file_at(1, 7),)), 100) == []


@given(
    st.lists(st.integers(1, 60), max_size=12, unique=True),
    st.sets(st.integers(1, 60), max_size=40),
    st.integers(1, 30),
    st.integers(0, 60),
    st.integers(1, 9),
)
def test_every_live_message_is_read_exactly_once(
    bounds: list[int], removed: set[int], first: int, last: int, per_range: int
) -> None:
    edges = sorted(bounds)
    files = tuple(file_at(a, b) for a, b in zip(edges[::2], edges[1::2], strict=False))
    read: list[int] = []
    for part in ranges_of(StreamSnapshot(first, last, files, BitMap64(removed)), per_range):
        assert part.file is not None or part.last_seq - part.first_seq < per_range
        gone = BitMap64.deserialize(part.removed) if part.removed else BitMap64()
        assert part.file is None or part.file.first_seq <= part.first_seq
        # The API knows by itself what was removed.
        read += [
            seq
            for seq in range(part.first_seq, part.last_seq + 1)
            if seq not in (gone if part.file else removed)
        ]
    assert read == [seq for seq in range(first, last + 1) if seq not in removed]
