"""A file that passes by the cache holds what was written, wherever blocks and writes end."""

from __future__ import annotations

import errno
import os
from itertools import pairwise
from pathlib import Path
from random import Random
from threading import Semaphore
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.table import direct_file
from headwater.table.direct_file import ALIGNED_BYTES, BLOCK_BYTES, DirectFile

NOISE = Random(7).randbytes(3 * BLOCK_BYTES + 5000)
LENGTHS = [
    0,
    1,
    ALIGNED_BYTES,
    BLOCK_BYTES - 1,
    BLOCK_BYTES,
    BLOCK_BYTES + 1,
    BLOCK_BYTES + ALIGNED_BYTES,
    2 * BLOCK_BYTES,
    3 * BLOCK_BYTES + 4999,
]


def write(path: Path, *parts: bytes) -> DirectFile:
    """Write a file of these parts."""
    file = DirectFile(path)
    for part in parts:
        assert file.write(memoryview(part)) == len(part)
    file.close()
    assert file.closed
    return file


@pytest.mark.parametrize("length", LENGTHS)
def test_a_file_of_any_length_is_as_long_as_what_was_written(tmp_path: Path, length: int) -> None:
    write(tmp_path / "x", NOISE[:length])
    assert (tmp_path / "x").read_bytes() == NOISE[:length]


@given(st.lists(st.integers(0, 3 * BLOCK_BYTES), max_size=4).map(sorted))
def test_writes_end_anywhere(tmp_path_factory: pytest.TempPathFactory, cuts: list[int]) -> None:
    path = tmp_path_factory.getbasetemp() / "anywhere"
    bounds = [0, *cuts, len(NOISE)]
    write(path, *(NOISE[start:stop] for start, stop in pairwise(bounds)))
    assert path.read_bytes() == NOISE


def test_what_was_there_before_is_gone(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(NOISE)
    write(tmp_path / "x", b"short")
    assert (tmp_path / "x").read_bytes() == b"short"


def test_blocks_that_were_used_before_leave_nothing_behind(tmp_path: Path) -> None:
    for number in range(3 * direct_file._MOST_FREE):
        write(tmp_path / "long", NOISE[: 2 * BLOCK_BYTES + number])
        write(tmp_path / "short", b"%d" % number)
        assert (tmp_path / "short").read_bytes() == b"%d" % number
        assert (tmp_path / "long").read_bytes() == NOISE[: 2 * BLOCK_BYTES + number]
    assert len(direct_file._free) <= direct_file._MOST_FREE


def test_the_rate_is_known_once_a_block_was_written(tmp_path: Path) -> None:
    assert write(tmp_path / "x", NOISE[: BLOCK_BYTES - 1]).bytes_per_s is None
    rate = write(tmp_path / "x", NOISE).bytes_per_s
    assert rate is not None
    assert rate > 0


def test_a_block_that_is_still_being_written_does_not_count_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, may_end, pwrite = Semaphore(0), Semaphore(0), os.pwrite

    def slow(fd: int, data: Any, place: int) -> int:
        began.release()
        assert may_end.acquire(timeout=60)
        return pwrite(fd, data, place)

    monkeypatch.setattr("os.pwrite", slow)
    file = DirectFile(tmp_path / "x")
    file.write(memoryview(NOISE[:BLOCK_BYTES]))
    assert began.acquire(timeout=60)
    assert file.bytes_per_s is None
    may_end.release()
    file.write(memoryview(NOISE[BLOCK_BYTES : 2 * BLOCK_BYTES]))
    assert began.acquire(timeout=60)
    assert file.bytes_per_s == BLOCK_BYTES / file._busy_s
    may_end.release()
    file.close()
    assert file.bytes_per_s == 2 * BLOCK_BYTES / file._busy_s


def test_a_file_system_that_has_no_other_way_than_the_cache_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(direct_file, "_set_direct", lambda fd, wanted: False)
    write(tmp_path / "x", NOISE)
    assert (tmp_path / "x").read_bytes() == NOISE


class Disk:
    """Answers writes with errors, one after the other, and then as it should."""

    def __init__(self, *errors: OSError | None) -> None:
        self._errors = list(errors)
        self._pwrite = os.pwrite

    def pwrite(self, fd: int, data: Any, place: int) -> int:
        error = self._errors.pop(0) if self._errors else None
        if error is not None:
            raise error
        # A disk may take less than it is given.
        return self._pwrite(
            fd, data[: max(len(data) // 2 // ALIGNED_BYTES * ALIGNED_BYTES, ALIGNED_BYTES)], place
        )


def test_a_file_system_that_says_so_only_at_the_first_write_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: list[bool] = []

    def set_direct(fd: int, wanted: bool) -> bool:
        changes.append(wanted)
        return wanted

    monkeypatch.setattr(direct_file, "_set_direct", set_direct)
    monkeypatch.setattr("os.pwrite", Disk(OSError(errno.EINVAL, "Invalid argument")).pwrite)
    write(tmp_path / "x", NOISE)
    assert changes == [True, False]
    monkeypatch.undo()
    assert (tmp_path / "x").read_bytes() == NOISE


@pytest.mark.parametrize("refused", range(4))
def test_a_disk_that_refuses_a_block_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: int
) -> None:
    full = OSError(errno.ENOSPC, "No space left on device")
    disk = Disk(*[None] * refused, full)
    monkeypatch.setattr("os.pwrite", disk.pwrite)
    open_before = len(os.listdir("/proc/self/fd"))
    file = DirectFile(tmp_path / "x")

    def write_and_close() -> None:
        try:
            file.write(memoryview(NOISE))
        finally:
            file.close()

    with pytest.raises(OSError, match="No space left on device"):
        write_and_close()
    assert file.closed
    file.close()
    assert len(os.listdir("/proc/self/fd")) <= open_before
