"""Open drops a record that was cut off; all other damage is reported, skipped and never served."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, NewerFormatError
from headwater.log import Log
from headwater.log.batch import HEAD_SIZE, MESSAGE_SIZE
from headwater.log.segment import SEGMENT_HEADER_SIZE, STAMP_SIZE, SegmentHeader, segment_path
from log.batches import contents, numbered


def two_batches(directory: Path, disk: RealDisk) -> Path:
    log = Log.open(directory, disk)
    log.append([numbered(1), numbered(2)])
    log.sync()
    log.close()
    return segment_path(directory, 1)


def test_a_last_batch_cut_anywhere_is_dropped_and_recorded(directory: Path, disk: RealDisk) -> None:
    whole = two_batches(directory, disk).read_bytes()
    start = len(whole) - len(numbered(2)) - STAMP_SIZE
    for end in range(start + 1, len(whole)):
        segment_path(directory, 1).write_bytes(whole[:end])
        log = Log.open(directory, RealDisk(sync=False))
        assert contents(log) == [numbered(1)]
        [damage] = log.damage
        assert damage.torn
        assert damage.position.offset in (start, start + STAMP_SIZE)
        log.append([numbered(2)])
        log.sync()
        log.close()
        log = Log.open(directory, RealDisk(sync=False))
        assert contents(log) == [numbered(1), numbered(2)]
        assert log.damage == []
        segment_path(directory, 2).unlink()


def test_a_torn_batch_whose_head_survived_is_named(directory: Path, disk: RealDisk) -> None:
    path = two_batches(directory, disk)
    path.write_bytes(path.read_bytes()[:-1])
    [damage] = Log.open(directory, disk).damage
    assert damage.torn
    assert (damage.base_seq, damage.count, damage.last_seq) == (2, 1, 2)


@pytest.mark.parametrize(
    "garbage", [b"\0" * 5000, b"\xff" * 99, b"\xf1HWB" * 50], ids=["zeros", "ones", "magic"]
)
def test_garbage_after_the_last_batch_counts_as_damage_for_it_may_have_been_a_batch(
    directory: Path, disk: RealDisk, garbage: bytes
) -> None:
    path = two_batches(directory, disk)
    whole = path.read_bytes()
    path.write_bytes(whole + garbage)
    for _ in range(2):
        log = Log.open(directory, disk)
        assert contents(log) == [numbered(1), numbered(2)]
        [damage] = log.damage
        assert not damage.torn
        assert damage.most_messages == (len(garbage) - STAMP_SIZE - HEAD_SIZE) // MESSAGE_SIZE
        assert path.read_bytes() == whole + garbage
        log.close()


@pytest.mark.parametrize("begun", [0, 1, SEGMENT_HEADER_SIZE - 1])
def test_a_newest_segment_that_was_hardly_begun_is_removed(
    directory: Path, disk: RealDisk, begun: int
) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    newest = segment_path(directory, log.rotate())
    log.close()
    newest.write_bytes(newest.read_bytes()[:begun])
    log = Log.open(directory, disk)
    assert not newest.exists()
    log.append([numbered(2)])
    log.sync()
    assert contents(log) == contents(Log.open(directory, disk)) == [numbered(1), numbered(2)]


def test_a_newest_segment_that_is_missing_is_fine(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1)])
    log.sync()
    newest = segment_path(directory, log.rotate())
    log.close()
    newest.unlink()
    assert contents(Log.open(directory, disk)) == [numbered(1)]


def test_a_batch_inside_a_payload_is_never_taken_for_a_record(directory: Path, disk: RealDisk) -> None:
    log = Log.open(directory, disk)
    log.append([numbered(1), numbered(2, data=numbered(666)), numbered(3)])
    log.sync()
    log.close()
    path = segment_path(directory, 1)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(numbered(2, data=numbered(666)))] ^= 1
    path.write_bytes(damaged)
    assert contents(Log.open(directory, disk)) == [numbered(1), numbered(3)]


def test_what_a_later_header_jumps_over_is_void(directory: Path, disk: RealDisk) -> None:
    path = two_batches(directory, disk)
    sealed = path.stat().st_size - len(numbered(2)) - STAMP_SIZE
    segment_path(directory, 2).write_bytes(b"a segment that a failed rollback left behind")
    segment_path(directory, 3).write_bytes(SegmentHeader(3, 1, sealed).encode())
    log = Log.open(directory, disk)
    assert contents(log) == [numbered(1)]
    assert log.damage == []
    assert not segment_path(directory, 2).exists()
    assert log.segment == 3
    log.append([numbered(2)])
    assert log.segment == 4


def three_segments(directory: Path, disk: RealDisk) -> dict[int, list[bytes]]:
    """Write two batches to each of three segments, and return which."""
    log = Log.open(directory, disk)
    written = {}
    for number in (1, 2, 3):
        written[number] = [numbered(10 * number, count=3), numbered(10 * number + 3)]
        log.append(written[number])
        log.sync()
        if number < 3:
            log.rotate()
    log.close()
    return written


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_flipped_bit_anywhere_is_reported_and_never_served(data: st.DataObject) -> None:
    with TemporaryDirectory() as root:
        directory = Path(root)
        disk = RealDisk(sync=False)
        written = three_segments(directory, disk)
        number = data.draw(st.sampled_from(sorted(written)))
        path = segment_path(directory, number)
        damaged = bytearray(path.read_bytes())
        bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        log = Log.open(directory, RealDisk(sync=False))
        served = contents(log)
        [damage] = log.damage
        everything = [batch for batches in written.values() for batch in batches]
        hit = _batch_at(written[number], bit // 8)
        assert served == [batch for batch in everything if batch != hit]
        assert damage.position.segment == number
        assert damage.position.offset <= bit // 8 < damage.position.offset + damage.position.length
        assert not damage.torn


def _batch_at(batches: Sequence[bytes], offset: int) -> bytes | None:
    """Return the batch whose record holds the byte at this offset, None in the header."""
    end = SEGMENT_HEADER_SIZE
    for batch in batches:
        if end <= offset < (end := end + STAMP_SIZE + len(batch)):
            return batch
    return None


def test_a_damaged_body_is_named_by_its_sequences(directory: Path, disk: RealDisk) -> None:
    written = three_segments(directory, disk)
    path = segment_path(directory, 2)
    damaged = bytearray(path.read_bytes())
    damaged[damaged.index(b"subject")] ^= 1
    path.write_bytes(damaged)
    log = Log.open(directory, disk)
    assert len(contents(log)) == sum(map(len, written.values())) - 1
    [damage] = log.damage
    assert (damage.base_seq, damage.count, damage.last_seq, damage.torn) == (20, 3, 22, False)
    with pytest.raises(CorruptionError) as refused:
        log.read(damage.position)
    assert (refused.value.path, refused.value.offset) == (path, damage.position.offset)
    assert list(log.replay())
    assert len(log.damage) == 1


def test_a_sealed_segment_that_was_cut_is_damaged(directory: Path, disk: RealDisk) -> None:
    written = three_segments(directory, disk)
    path = segment_path(directory, 2)
    path.write_bytes(path.read_bytes()[: -len(written[2][1]) - STAMP_SIZE])
    log = Log.open(directory, disk)
    assert contents(log) == [*written[1], written[2][0], *written[3]]
    [damage] = log.damage
    assert not damage.torn
    assert damage.position.segment == 2


def test_a_sealed_segment_that_is_missing_is_damaged(directory: Path, disk: RealDisk) -> None:
    written = three_segments(directory, disk)
    segment_path(directory, 2).unlink()
    log = Log.open(directory, disk)
    assert contents(log) == [*written[1], *written[3]]
    assert [damage.position.segment for damage in log.damage] == [2]


def test_a_segment_of_an_unknown_version_is_refused_and_kept(directory: Path, disk: RealDisk) -> None:
    three_segments(directory, disk)
    path = segment_path(directory, 3)
    future = bytearray(path.read_bytes())
    future[8] = 3
    future[44:48] = crc32(future[:44]).to_bytes(4, "little")
    path.write_bytes(future)
    with pytest.raises(NewerFormatError, match="version 3, this Headwater knows up to 2"):
        Log.open(directory, disk)
    assert path.read_bytes() == future


@pytest.mark.parametrize("field", [4, 6], ids=["version", "flags"])
def test_a_batch_of_an_unknown_version_is_refused_and_not_taken_for_damage(
    directory: Path, disk: RealDisk, field: int
) -> None:
    path = two_batches(directory, disk)
    whole = bytearray(path.read_bytes())
    start = len(whole) - len(numbered(2))
    whole[start + field] = 8
    crc = crc32(whole[start : start + HEAD_SIZE - 4])
    whole[start + HEAD_SIZE - 4 : start + HEAD_SIZE] = crc.to_bytes(4, "little")
    path.write_bytes(whole)
    with pytest.raises(NewerFormatError, match="newer release"):
        contents(Log.open(directory, disk))
    assert path.read_bytes() == whole


def test_segments_of_version_1_are_read_and_followed_by_ones_of_version_2(
    directory: Path, disk: RealDisk
) -> None:
    path = two_batches(directory, disk)
    old = bytearray(path.read_bytes())
    old[8] = 1
    old[44:48] = crc32(old[:44]).to_bytes(4, "little")
    path.write_bytes(old)
    log = Log.open(directory, disk)
    log.append([numbered(3)])
    log.sync()
    log.close()
    log = Log.open(directory, disk)
    assert contents(log) == [numbered(1), numbered(2), numbered(3)]
    assert log.damage == []
    assert segment_path(directory, 2).read_bytes()[8] == 2
