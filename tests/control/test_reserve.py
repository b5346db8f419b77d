"""Tests of control.reserve: created if there is space, released if there is none, restored at once."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import pytest

from headwater.control import reserve as module
from headwater.control.reserve import NAME, Reserve
from waits import until

SIZE, NEEDED = 256 << 10, 64 << 10


class Room:
    """How much the disk has room for; what the reserve takes and gives back is counted."""

    def __init__(self, patch: pytest.MonkeyPatch, store: Path, free: int) -> None:
        self._path = store / NAME
        self.capacity = free
        self.refusal = errno.ENOSPC
        self._pwrite = os.pwrite
        patch.setattr(os, "pwrite", self._write)
        patch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=max(self.free, 0), f_frsize=1))

    @property
    def free(self) -> int:
        return self.capacity - (self._path.stat().st_size if self._path.exists() else 0)

    def _write(self, fd: int, data: bytes, offset: int) -> int:
        if self.free <= 0:
            raise OSError(self.refusal, os.strerror(self.refusal))
        return self._pwrite(fd, data[: self.free], offset)


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Room:
    monkeypatch.setattr(module, "LOOK_S", 0.01)
    return Room(monkeypatch, tmp_path, free=10 * SIZE)


@asynccontextmanager
async def kept(reserve: Reserve) -> AsyncIterator[None]:
    task = asyncio.create_task(reserve.keep())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def made(store: Path) -> None:
    """Return once a store has its reserve."""
    reserve = Reserve(store, SIZE, NEEDED)
    async with kept(reserve):
        await until(lambda: reserve.held == SIZE)


async def test_a_reserve_is_made_where_there_is_room_and_takes_up_blocks(tmp_path: Path, room: Room) -> None:
    await made(tmp_path)
    assert (tmp_path / NAME).stat().st_blocks * 512 >= SIZE
    async with Reserve(tmp_path, SIZE, NEEDED).spent():
        assert (tmp_path / NAME).stat().st_size == SIZE, "there is room, so nothing is released"
    assert (tmp_path / NAME).stat().st_size == SIZE


@pytest.mark.parametrize("refusal", [errno.ENOSPC, errno.EDQUOT])
async def test_a_full_disk_releases_it_and_what_is_left_is_taken_back(
    tmp_path: Path, room: Room, refusal: int, caplog: pytest.LogCaptureFixture
) -> None:
    await made(tmp_path)
    room.capacity, room.refusal = SIZE, refusal
    reserve = Reserve(tmp_path, SIZE, NEEDED)
    async with reserve.spent():
        assert reserve.held == 0
        room.capacity -= 3 * 4096  # what a start wrote
    assert reserve.held == SIZE - 3 * 4096
    async with reserve.spent(), reserve.spent():
        assert reserve.held == 0
    assert reserve.held == SIZE - 3 * 4096
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert "is full: releasing its reserve of 256 KiB" in said[0]


async def test_it_is_whole_again_once_there_is_room_and_that_is_said_once(
    tmp_path: Path, room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await made(tmp_path)
    room.capacity = SIZE
    reserve = Reserve(tmp_path, SIZE, NEEDED)
    async with reserve.spent():
        room.capacity -= 8192
    async with kept(reserve):
        await asyncio.sleep(0.05)
        assert reserve.held == SIZE - 8192
        room.capacity = 10 * SIZE
        await until(lambda: "has space again" in caplog.text)
        assert reserve.held == SIZE
        await asyncio.sleep(0.05)
    assert caplog.text.count("has space again") == 1


async def test_a_full_disk_without_a_reserve_stays_as_it_is(
    tmp_path: Path, room: Room, caplog: pytest.LogCaptureFixture
) -> None:
    room.capacity = 0
    reserve = Reserve(tmp_path, SIZE, NEEDED)
    async with reserve.spent():
        assert os.listdir(tmp_path) == []
    assert os.listdir(tmp_path) == []
    assert "it has no reserve" in caplog.text


async def test_the_last_room_of_a_disk_is_left_to_messages(tmp_path: Path, room: Room) -> None:
    room.capacity = 2 * SIZE - 1
    reserve = Reserve(tmp_path, SIZE, NEEDED)
    async with kept(reserve):
        await asyncio.sleep(0.05)
        assert reserve.held == 0


async def test_a_reserve_that_cannot_be_written_hinders_nothing(tmp_path: Path, room: Room) -> None:
    (tmp_path / NAME).mkdir()
    entered = False
    async with Reserve(tmp_path, SIZE, NEEDED).spent():
        entered = True
    assert entered


async def test_a_failure_of_what_opens_gives_the_room_back_to_the_reserve(tmp_path: Path, room: Room) -> None:
    await made(tmp_path)
    room.capacity = SIZE
    reserve = Reserve(tmp_path, SIZE, NEEDED)
    with pytest.raises(RuntimeError):
        async with reserve.spent():
            raise RuntimeError
    assert reserve.held == SIZE
