"""Written bytes are summed, and a range is read at its position in the file."""

from __future__ import annotations

import zlib
from io import FileIO
from pathlib import Path
from unittest.mock import patch

import pytest

from headwater.table.checked_bytes import ByteRange, ChecksumSink
from headwater.table.direct_file import DirectFile


@pytest.mark.parametrize("is_direct", [False, True])
def test_the_sink_writes_and_sums_since_last_asked(tmp_path: Path, is_direct: bool) -> None:
    sink = ChecksumSink(DirectFile(tmp_path / "x") if is_direct else FileIO(tmp_path / "x", "wb"))
    sink.write(b"head")
    assert sink.take_crc() == zlib.crc32(b"head")
    sink.write(b"one")
    sink.write(b"two")
    assert sink.take_crc() == zlib.crc32(b"onetwo")
    assert sink.size == sink.tell() == 10
    sink.close()
    assert sink.closed
    assert (tmp_path / "x").read_bytes() == b"headonetwo"


def test_the_sink_keeps_back_what_is_held(tmp_path: Path) -> None:
    sink = ChecksumSink(FileIO(tmp_path / "x", "wb"))
    sink.write(b"head")
    sink.hold()
    assert sink.write(b"one") == sink.write(memoryview(b"two")) == 3
    assert (sink.size, sink.take_crc()) == (4, zlib.crc32(b"head"))
    assert sink.release() == b"onetwo"
    assert sink.release() == b""
    sink.write(b"three")
    assert (sink.size, sink.take_crc()) == (9, zlib.crc32(b"three"))
    sink.close()
    assert (tmp_path / "x").read_bytes() == b"headthree"


def test_a_write_that_the_system_takes_in_part_continues(tmp_path: Path) -> None:
    sink = ChecksumSink(FileIO(tmp_path / "x", "wb"))
    file = sink._file
    with patch.object(sink, "_file") as slow:
        slow.write.side_effect = lambda view: file.write(view[:3])
        assert sink.write(memoryview(b"ten bytes!")) == 10
    sink.close()
    assert (tmp_path / "x").read_bytes() == b"ten bytes!"
    assert sink.take_crc() == zlib.crc32(b"ten bytes!")


def test_a_range_copies_nothing() -> None:
    content = bytearray(b"abcdef")
    part = ByteRange(memoryview(content), 0)
    found = part.read(3)
    content[0] = ord("x")
    assert bytes(found) == b"xbc"


def test_a_range_reads_where_its_bytes_stand_in_the_file() -> None:
    part = ByteRange(b"abcdef", 100)
    assert part.seek(102) == 102
    assert bytes(part.read(3)) == b"cde"
    assert part.tell() == 105
    assert bytes(part.read(10)) == b"f"
    assert part.seek(0, 2) == 106


def test_a_range_does_not_answer_for_what_it_lacks() -> None:
    part = ByteRange(b"abcdef", 100)
    part.seek(10)
    with pytest.raises(AssertionError):
        part.read(1)
