"""What goes through is summed, and a range answers at its places in the file."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from headwater.table.checked_bytes import ByteRange, ChecksumSink


def test_the_sink_writes_and_sums_since_last_asked(tmp_path: Path) -> None:
    sink = ChecksumSink(tmp_path / "x")
    sink.write(b"head")
    assert sink.take_crc() == zlib.crc32(b"head")
    sink.write(b"one")
    sink.write(b"two")
    assert sink.take_crc() == zlib.crc32(b"onetwo")
    assert sink.size == sink.tell() == 10
    sink.close()
    assert sink.closed
    assert (tmp_path / "x").read_bytes() == b"headonetwo"


def test_a_range_reads_where_its_bytes_stand_in_the_file() -> None:
    part = ByteRange(b"abcdef", 100)
    assert part.seek(102) == 102
    assert part.read(3) == b"cde"
    assert part.tell() == 105
    assert part.read(10) == b"f"
    assert part.seek(0, 2) == 106


def test_a_range_does_not_answer_for_what_it_lacks() -> None:
    part = ByteRange(b"abcdef", 100)
    part.seek(10)
    with pytest.raises(AssertionError):
        part.read(1)
