"""A segment distinguishes its own batches, each at its place, from any other bytes in the file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.disk import RealDisk
from headwater.log import Log, Position
from headwater.log.segment import (
    SEGMENT_HEADER_SIZE,
    STAMP_SIZE,
    Damage,
    SegmentHeader,
    read_header,
    records,
    scan,
    segment_number,
    segment_path,
)
from log.batches import contents, numbered

sequences = st.integers(0, (1 << 64) - 1)


@given(st.integers(0, 10**20 - 1))
def test_a_segment_is_named_by_its_number(number: int) -> None:
    assert segment_number(segment_path(Path("log"), number).name) == number


@pytest.mark.parametrize(
    "name", ["1.log", "0000000000000000001a.log", "٠" * 20 + ".log", "0" * 20, "0" * 20 + ".log.tmp", ".log"]
)
def test_another_name_is_no_segment(name: str) -> None:
    assert segment_number(name) is None


@given(sequences, sequences, sequences)
def test_a_header_has_its_fixed_size(number: int, previous: int, sealed: int) -> None:
    assert len(SegmentHeader(number, previous, sealed).encode()) == SEGMENT_HEADER_SIZE


def test_a_header_is_read_back_under_its_own_number_only(tmp_path: Path, disk: RealDisk) -> None:
    header = SegmentHeader(7, 5, 1234)
    for number in (7, 8):
        segment_path(tmp_path, number).write_bytes(header.encode())
    assert read_header(disk, tmp_path, 7) == header
    assert read_header(disk, tmp_path, 8) is None


def written(directory: Path, number: int, batches: list[bytes]) -> int:
    """Write a segment with these batches and return its length."""
    buffers, _ = records(number, SEGMENT_HEADER_SIZE, batches)
    whole = SegmentHeader(number, 0, 0).encode() + b"".join(buffers)
    segment_path(directory, number).write_bytes(whole)
    return len(whole)


def test_records_lie_where_they_are_said_to(tmp_path: Path, disk: RealDisk) -> None:
    batches = [numbered(1), numbered(2, count=5), numbered(7)]
    _, positions = records(3, SEGMENT_HEADER_SIZE, batches)
    end = written(tmp_path, 3, batches)
    found = [item for item in scan(disk, tmp_path, 3, end) if not isinstance(item, Damage)]
    assert [position for position, _ in found] == positions
    assert [batch.encoded for _, batch in found] == batches
    whole = segment_path(tmp_path, 3).read_bytes()
    assert [whole[p.offset : p.offset + p.length] for p in positions] == batches


def test_a_record_counts_only_in_its_own_segment_and_at_its_own_offset(
    tmp_path: Path, disk: RealDisk
) -> None:
    end = written(tmp_path, 1, [numbered(1), numbered(2)])
    record = STAMP_SIZE + len(numbered(1))
    whole = segment_path(tmp_path, 1).read_bytes()
    segment_path(tmp_path, 2).write_bytes(whole)
    assert list(scan(disk, tmp_path, 2, end)) == [
        Damage(Position(2, SEGMENT_HEADER_SIZE, end - SEGMENT_HEADER_SIZE))
    ]
    swapped = whole[:SEGMENT_HEADER_SIZE] + whole[-record:] + whole[SEGMENT_HEADER_SIZE:-record]
    segment_path(tmp_path, 3).write_bytes(swapped)
    assert all(isinstance(item, Damage) for item in scan(disk, tmp_path, 3, end))


def test_a_scan_ends_where_the_segment_was_sealed(tmp_path: Path, disk: RealDisk) -> None:
    end = written(tmp_path, 1, [numbered(1), numbered(2)])
    sealed = end - STAMP_SIZE - len(numbered(2))
    [item] = scan(disk, tmp_path, 1, sealed)
    assert not isinstance(item, Damage)
    assert item[1].base_seq == 1


def test_large_damage_is_skipped_over_many_windows(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    big = numbered(2, data=b"\xf1HWB" * 300_000)
    positions = log.append([numbered(1), big, numbered(3)])
    log.sync()
    log.close()
    path = segment_path(directory, 1)
    damaged = bytearray(path.read_bytes())
    damaged[positions[1].offset] ^= 1
    path.write_bytes(damaged)
    assert contents(Log.open(directory, disk)) == [numbered(1), numbered(3)]
