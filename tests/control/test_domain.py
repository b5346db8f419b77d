"""Streams are declared once, survive restarts and crashes, and a broken one does not hold up the others."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from doors import opened_domain, services
from headwater.control.account import AccountLimits
from headwater.control.catalog import Catalog
from headwater.control.directories import Directories
from headwater.control.domain import Domain
from headwater.errors import ApiError, DiskError
from headwater.model.stream import Storage, StreamConfig
from headwater.stream.stream import Stream


def config(name: str, **fields: Any) -> StreamConfig:
    return StreamConfig(**{"name": name, "subjects": (f"{name}.>",), **fields})


class Seen:
    """An observer that writes down what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str]] = []

    def on_opened(self, stream: Stream) -> None:
        self.events.append(("opened", stream.name))

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        self.events.append((f"changed from {old.description!r}", stream.name))

    def on_closed(self, stream: Stream) -> None:
        self.events.append(("closed", stream.name))


async def on(store: Path, work: Callable[[Domain], Awaitable[None]], **wanted: Any) -> None:
    """Run work on a domain that is opened before and closed after it."""
    async with services(store) as shared, opened_domain(store, shared, **wanted) as domain:
        await work(domain)


async def refused(work: Awaitable[object]) -> int:
    """Return the err_code with which the work is refused."""
    with pytest.raises(ApiError) as error:
        await work
    return error.value.err_code


def folders(store: Path) -> list[str]:
    return sorted(p.name for p in (store / "$G").iterdir())


async def test_a_stream_and_its_config_are_there_after_a_restart(tmp_path: Path) -> None:
    created: dict[str, int] = {}

    async def first(domain: Domain) -> None:
        stream, new = await domain.create_stream(config("a", description="kept", max_msgs=5))
        assert new
        created["ns"] = stream.created_ns
        stream.offer([(b"a.1", b"", b"", b"data")])
        await stream.settled()

    async def second(domain: Domain) -> None:
        stream = domain.stream("a")
        assert (stream.config.description, stream.config.max_msgs) == ("kept", 5)
        assert stream.created_ns == created["ns"]
        message = await stream.message(1)
        assert message is not None
        assert message.data == b"data"

    await on(tmp_path, first)
    await on(tmp_path, second)


async def test_the_same_config_again_gives_the_same_stream_and_another_is_refused(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        stream, _ = await domain.create_stream(config("a"))
        again, new = await domain.create_stream(config("a"))
        assert again is stream
        assert not new
        assert await refused(domain.create_stream(config("a", max_msgs=1))) == 10058

    await on(tmp_path, work)


async def test_a_restart_changes_nothing_about_what_is_the_same_config(tmp_path: Path) -> None:
    wanted = config("a", sources=(), metadata={"k": "v"}, max_age=10**12)

    async def first(domain: Domain) -> None:
        await domain.create_stream(wanted)

    async def second(domain: Domain) -> None:
        assert not (await domain.create_stream(wanted))[1]

    await on(tmp_path, first)
    await on(tmp_path, second)


async def test_concurrent_creates_of_one_name_make_one_stream(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        made = await asyncio.gather(*(domain.create_stream(config("a")) for _ in range(10)))
        assert sum(new for _, new in made) == 1
        assert len({id(stream) for stream, _ in made}) == 1

    await on(tmp_path, work)
    assert folders(tmp_path) == ["a"]


async def test_concurrent_creates_cannot_take_one_subject(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        made = await asyncio.gather(
            *(domain.create_stream(config(f"s{n}", subjects=("same.>",))) for n in range(10)),
            return_exceptions=True,
        )
        codes = [m.err_code for m in made if isinstance(m, ApiError)]
        assert codes == [10065] * 9
        assert len(domain.names()) == 1

    await on(tmp_path, work)


async def test_create_update_and_delete_of_one_name_come_one_after_the_other(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        for _ in range(5):
            await asyncio.gather(
                domain.create_stream(config("a")),
                domain.update_stream(config("a", max_msgs=3)),
                domain.delete_stream("a"),
                domain.create_stream(config("a")),
                domain.delete_stream("a"),
            )
        assert domain.names() == []

    await on(tmp_path, work)
    assert folders(tmp_path) == []


async def test_an_update_is_durable_and_a_refused_one_changes_nothing(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.update_stream(config("a", description="new"))
        assert await refused(domain.update_stream(config("a", storage=Storage.MEMORY))) == 10052
        assert domain.stream("a").config.description == "new"
        assert await refused(domain.update_stream(config("b"))) == 10059

    async def second(domain: Domain) -> None:
        assert domain.stream("a").config.description == "new"

    await on(tmp_path, first)
    await on(tmp_path, second)


async def test_a_deleted_stream_is_gone_with_its_files(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.delete_stream("a")
        assert await refused(domain.delete_stream("a")) == 10059
        with pytest.raises(ApiError):
            domain.stream("a")

    await on(tmp_path, work)
    assert folders(tmp_path) == []
    await on(tmp_path, _has_none)


async def _has_none(domain: Domain) -> None:
    assert domain.names() == []


async def test_names_are_found_by_the_subjects_they_listen_on(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        for name in ("c", "a", "b"):
            await domain.create_stream(config(name))
        assert domain.names() == ["a", "b", "c"]
        assert domain.names("b.1") == ["b"]
        assert domain.names("*.1") == ["a", "b", "c"]
        assert domain.names("d") == []

    await on(tmp_path, work)


async def test_observers_are_told_of_everything_also_when_they_come_late(tmp_path: Path) -> None:
    seen, late = Seen(), Seen()

    async def work(domain: Domain) -> None:
        domain.observe(seen)
        await domain.create_stream(config("a", description="one"))
        await domain.create_stream(config("b"))
        domain.observe(late)
        await domain.update_stream(config("a", description="two"))
        await domain.delete_stream("a")

    await on(tmp_path, work)
    told = [("changed from 'one'", "a"), ("closed", "a"), ("closed", "b")]
    assert seen.events == late.events == [("opened", "a"), ("opened", "b"), *told]


async def test_a_broken_stream_is_offline_with_a_reason_and_the_others_go_on(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        for name in ("a", "b", "c"):
            await domain.create_stream(config(name))

    async def second(domain: Domain) -> None:
        assert domain.names() == ["a", "b", "c"]
        assert domain.stream("a").name == "a"
        assert "missing" in domain.offline["b"]
        with pytest.raises(ApiError, match="stream is offline: its directory"):
            domain.stream("b")
        assert await refused(domain.update_stream(config("b"))) == 10194
        assert await refused(domain.create_stream(config("d", subjects=("b.1",)))) == 10065
        await domain.delete_stream("b")
        assert dict(domain.offline) == {}
        await domain.create_stream(config("b"))

    await on(tmp_path, first)
    (tmp_path / "$G" / "b").rename(tmp_path / "elsewhere")
    await on(tmp_path, second)
    assert (tmp_path / "elsewhere").exists()


async def test_a_stream_whose_table_is_destroyed_does_not_hold_up_the_others(
    tmp_path: Path,
) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))

    async def second(domain: Domain) -> None:
        assert list(domain.offline) == ["a"]
        assert domain.stream("b")

    await on(tmp_path, first)
    for commit in (tmp_path / "$G" / "a" / "table" / "_delta_log").glob("*.json"):
        commit.write_bytes(b'{"no": "commit"}\n')
    await on(tmp_path, second)


async def test_a_config_that_cannot_be_read_takes_only_its_stream_offline(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))

    async def second(domain: Domain) -> None:
        assert list(domain.offline) == ["a"]
        assert domain.stream("b")

    await on(tmp_path, first)
    catalog = Catalog(tmp_path / "catalog.db")
    catalog.update("$G", "a", "{torn")
    catalog.close()
    await on(tmp_path, second)


async def test_memory_streams_stay_declared_and_start_empty(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        stream, _ = await domain.create_stream(config("m", storage=Storage.MEMORY))
        assert (tmp_path / "memory") in stream.directory.parents
        stream.offer([(b"m.1", b"", b"", b"data")])
        assert (await stream.state()).messages == 1

    async def second(domain: Domain) -> None:
        assert (await domain.stream("m").state()).messages == 0
        assert await domain.used(Storage.MEMORY) == 0

    await on(tmp_path, first)
    await on(tmp_path, second)


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
    (tmp_path / "catalog.db").rename(tmp_path / "lost.db")
    await on(tmp_path, _has_none)
    assert folders(tmp_path) == []


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


async def test_a_failed_update_leaves_the_old_config_in_force_and_in_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise DiskError(tmp_path, "write", errno.EIO)

    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a", description="old"))
        with monkeypatch.context() as patch:
            patch.setattr(Stream, "reconfigure", broken)
            assert await refused(domain.update_stream(config("a", description="new"))) == 10069
        assert [c.description for c in domain.configs()] == ["old"]

    async def second(domain: Domain) -> None:
        assert domain.stream("a").config.description == "old"

    await on(tmp_path, first)
    await on(tmp_path, second)


async def test_limits_of_the_account_hold_across_streams(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        await domain.create_stream(config("a", max_bytes=600))
        assert await refused(domain.create_stream(config("b", max_bytes=500))) == 10047
        await domain.create_stream(config("b", max_bytes=400))
        assert await refused(domain.create_stream(config("c"))) == 10047
        assert await refused(domain.update_stream(config("a", max_bytes=601))) == 10047
        await domain.delete_stream("b")
        await domain.update_stream(config("a", max_bytes=900))

    await on(tmp_path, work, limits=AccountLimits(max_storage=1000))


async def test_a_restored_stream_is_seen_only_when_it_is_whole(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        seen = Seen()
        domain.observe(seen)

        async def fill(stream: Stream) -> None:
            assert domain.names() == []
            assert seen.events == []
            stream.offer([(b"a.1", b"", b"", b"data")])
            await stream.settled()

        async def fail(stream: Stream) -> None:
            raise ApiError("broken", 500, 1, "broken")

        assert await refused(domain.restore_stream(config("a"), fail)) == 1
        stream = await domain.restore_stream(config("a"), fill)
        assert (await stream.state()).messages == 1
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
            assert (await domain.stream(name).state()).messages == 0
        left["names"] = domain.names()

    async def again(domain: Domain) -> None:
        assert domain.names() == left["names"]
        assert dict(domain.offline) == {}

    left: dict[str, list[str]] = {}
    await on(tmp_path, work)
    await on(tmp_path, again)
    assert folders(tmp_path) == left["names"]
