"""A stream that is created or restored exists after a restart, and a refused one leaves nothing."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from control.domains import Killed, Seen, are, config, folders, on, refused
from headwater.control.catalog import Catalog
from headwater.control.directories import Directories
from headwater.control.domain import Domain
from headwater.errors import ApiError, DiskError
from headwater.stream.stream import Stream


async def test_a_crash_before_the_catalog_leaves_no_stream_and_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async def work(domain: Domain) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Catalog, "create", full)
            assert await refused(domain.create_stream(config("a"))) == 10049
        assert domain.names() == []
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))

    await on(tmp_path, work)
    assert folders(tmp_path) == ["a", "b"]


async def test_a_crash_before_the_row_is_written_leaves_what_the_next_start_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def work(domain: Domain) -> None:
        await domain.create_stream(config("a"))

    def killed(*_: object) -> None:
        raise Killed

    async def crash(domain: Domain) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Catalog, "create", killed)
            patch.setattr(Directories, "discard", killed)
            with pytest.raises(Killed):
                await domain.create_stream(config("b"))

    await on(tmp_path, work)
    await on(tmp_path, crash)
    assert folders(tmp_path) == ["a", "b"]
    await on(tmp_path, lambda domain: are(domain, ["a"]))
    assert folders(tmp_path) == ["a"]


async def test_a_refused_stream_whose_row_cannot_be_removed_at_once_is_gone_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfinished(self: Directories, path: Path) -> None:
        raise DiskError(path, "sync", errno.EIO)

    async def create(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        catalog = domain._catalog
        with monkeypatch.context() as patch:
            patch.setattr(Directories, "finish", unfinished)
            patch.setattr(catalog._file, "_own", refusing_from(2, catalog._file._own))
            assert await refused(domain.create_stream(config("b"))) == 10049
        assert len(catalog.streams("$G")) == 2, "the row was left behind"
        await domain.create_stream(config("c"))

    await on(tmp_path, create)
    await on(tmp_path, lambda domain: are(domain, ["a", "c"]))


def refusing_from(count: int, call: Callable[[], None]) -> Callable[[], None]:
    """Return a call that the disk refuses from so many on."""
    calls = 0

    def refusing() -> None:
        nonlocal calls
        calls += 1
        if calls >= count:
            raise sqlite3.OperationalError("disk I/O error")
        call()

    return refusing


@pytest.mark.parametrize("step", ["make", "discard"])
async def test_a_disk_that_refuses_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def broken(*_: object) -> None:
        raise DiskError(tmp_path, step, errno.EIO)

    async def work(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        with monkeypatch.context() as patch:
            patch.setattr(Directories, step, broken)
            if step == "make":
                assert await refused(domain.create_stream(config("b"))) == 10049
            else:
                await domain.delete_stream("a")
        await domain.create_stream(config("c"))

    await on(tmp_path, work)
    await on(tmp_path, _sweeps)
    assert folders(tmp_path) == (["a", "c"] if step == "make" else ["c"])


async def _sweeps(domain: Domain) -> None:
    assert "c" in domain.names()


async def test_a_restored_stream_is_seen_only_when_it_is_whole(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        seen = Seen()
        domain.observe(seen)

        async def fill(stream: Stream) -> None:
            assert domain.names() == []
            assert seen.events == []
            stream.publishing.offer([(b"a.1", b"", b"", b"data")])
            await stream.publishing.settled()

        async def fail(stream: Stream) -> None:
            raise ApiError("broken", 500, 1, "broken")

        assert await refused(domain.restore_stream(config("a"), fail)) == 1
        stream = await domain.restore_stream(config("a"), fill)
        assert (await stream.reading.state()).messages == 1
        assert seen.events == [("opened", "a")]
        assert await refused(domain.restore_stream(config("a"), fill)) == 10130

    await on(tmp_path, work)
    assert folders(tmp_path) == ["a"]


async def test_a_create_cancelled_at_any_moment_leaves_a_stream_or_nothing(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        for number in range(40):
            task = asyncio.create_task(domain.create_stream(config(f"s{number:02}")))
            for _ in range(number):
                await asyncio.sleep(0.0005)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        for name in domain.names():
            assert (await domain.stream(name).reading.state()).messages == 0
        left["names"] = domain.names()

    async def again(domain: Domain) -> None:
        assert domain.names() == left["names"]
        assert dict(domain.offline) == {}

    left: dict[str, list[str]] = {}
    await on(tmp_path, work)
    await on(tmp_path, again)
    assert folders(tmp_path) == left["names"]
