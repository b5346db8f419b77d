"""A file's bytes are the same on the disk and in a bucket."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa
import pytest

from headwater.errors import CorruptionError
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.table import parquet
from headwater.table.checked_bytes import ByteRange
from headwater.table.stored_bytes import LocalBytes, ObjectBytes, SeekableBytes, StoredBytes, stored
from table.samples import columns


@pytest.fixture(params=["disk", "bucket"])
def file(request: pytest.FixtureRequest, tmp_path: Path) -> StoredBytes:
    """A file of three row groups."""
    path = tmp_path / "objects" / "file.parquet"
    path.parent.mkdir()
    parquet.write(path, columns(range(1, 40_001)), 1)
    if request.param == "disk":
        return stored(path)
    return ObjectBytes(Bucket(BucketAddress(f"file://{path.parent}")), path.name)


def test_the_tail_is_the_end_and_comes_with_the_size(file: StoredBytes) -> None:
    tail, size = file.tail(8)
    assert (len(tail), tail[4:]) == (8, b"PAR1")
    whole, same_size = file.tail(1 << 30)
    assert (len(whole), same_size) == (size, size)
    assert file.read(size - 8, 100) == tail
    assert file.read(3, 5) == whole[3:8]


def test_footer_and_row_groups_are_read_by_ranges(file: StoredBytes) -> None:
    footer = parquet.read_footer(file, None)
    groups = [parquet.read_group(file, footer, index, 1) for index in range(len(footer.bounds))]
    assert sum(len(group) for group in groups) == 40_000
    assert int(groups[-1].seqs[-1]) == 40_000


def test_arrow_runs_python_in_the_thread_of_the_caller_only(
    file: StoredBytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()

    class Noted(ByteRange):
        def read(self, length: int) -> memoryview:
            threads.add(threading.current_thread())
            return super().read(length)

    monkeypatch.setattr(parquet, "ByteRange", Noted)
    footer = parquet.read_footer(file, None)
    assert len(parquet.read_group(file, footer, 0, 1)) > 0
    assert threads == {threading.current_thread()}


def test_a_wrong_checksum_names_the_file(file: StoredBytes) -> None:
    with pytest.raises(CorruptionError, match=r"file\.parquet is damaged .* footer's checksum"):
        parquet.read_footer(file, 1)
    assert file.name.endswith("file.parquet")


def test_a_footer_longer_than_was_guessed_is_read_whole(file: StoredBytes) -> None:
    class Short(LocalBytes):
        first_tail = 9

    whole, size = file.tail(1 << 30)
    path = Path(file.name.removeprefix("file://"))
    assert parquet.read_footer_bytes(Short(path)) == parquet.read_footer_bytes(file)
    assert size == len(whole)


def test_arrow_reads_it_as_a_file(file: StoredBytes) -> None:
    size = file.tail(1)[1]
    opened = SeekableBytes(file, size)
    source = pa.PythonFile(opened, mode="r")
    assert source.size() == size
    assert source.read_at(4, size - 4) == b"PAR1"
    assert source.read_at(4, 0) == b"PAR1"
    assert (opened.seek(0, 2), opened.read(), opened.seek(-4, 1), opened.read()) == (
        size,
        b"",
        size - 4,
        b"PAR1",
    )


def test_ranges_that_were_fetched_are_not_read_again(file: StoredBytes) -> None:
    whole, size = file.tail(1 << 30)
    reads: list[tuple[int, int]] = []

    class Noted(LocalBytes):
        def read(self, start: int, length: int, crc: int | None = None) -> bytes:
            reads.append((start, start + length))
            return super().read(start, length, crc)

    opened = SeekableBytes(Noted(Path(file.name.removeprefix("file://"))), size)
    opened.fetch([(50_000, 50_100), (4, 100), (150, 200), (190, 195)])
    assert sorted(reads) == [(4, 200), (50_000, 50_100)]
    for start, end in ((4, 200), (50, 60), (50_000, 50_100), (150, 200)):
        opened.seek(start)
        assert opened.read(end - start) == whole[start:end]
    assert len(reads) == 2
    opened.seek(90_000)
    assert (opened.read(10), reads[2:]) == (whole[90_000:90_010], [(90_000, 90_010)])


def test_a_file_without_a_footer_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "short").write_bytes(b"PAR")
    with pytest.raises(CorruptionError, match="no Parquet footer"):
        parquet.read_footer(tmp_path / "short", None)
