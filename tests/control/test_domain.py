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
from headwater.control import domain as domain_module
from headwater.control import reopening
from headwater.control.account import AccountLimits
from headwater.control.catalog import Catalog, CatalogError, StreamRow
from headwater.control.directories import Directories
from headwater.control.domain import Domain
from headwater.disk import RealDisk
from headwater.errors import ApiError, DiskError
from headwater.model.stream import Storage, StreamConfig
from headwater.stream import stream as stream_module
from headwater.stream.stream import Stream
from hung_streams import HungCalls
from stream.streams import everything, publish
from waits import until


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


class Killed(BaseException):
    """The process ends here."""


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
        stream.publishing.offer([(b"a.1", b"", b"", b"data")])
        await stream.publishing.settled()

    async def second(domain: Domain) -> None:
        stream = domain.stream("a")
        assert (stream.config.description, stream.config.max_msgs) == ("kept", 5)
        assert stream.created_ns == created["ns"]
        message = await stream.reading.message(1)
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


async def test_a_stream_that_can_be_opened_again_is_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.control.reopening.FIRST_PAUSE_S", 0.01)
    seen = Seen()

    async def first(domain: Domain) -> None:
        stream, _ = await domain.create_stream(config("a"))
        stream.publishing.offer([(b"a.b", b"", b"", b"kept")])
        await stream.checkpoint()
        await domain.create_stream(config("b"))

    async def second(domain: Domain) -> None:
        domain.observe(seen)
        assert list(domain.offline) == ["a"]
        assert "headwater store repair" in domain.offline["a"]
        assert seen.events == [("opened", "b")]
        checkpoint.write_bytes(whole)
        await until(lambda: not domain.offline)
        assert seen.events == [("opened", "b"), ("opened", "a")]
        message = await domain.stream("a").reading.message(1)
        assert message is not None
        assert message.data == b"kept"

    await on(tmp_path, first)
    (checkpoint,) = tmp_path.glob("*/a/checkpoint")
    whole = checkpoint.read_bytes()
    for copy in tmp_path.glob("*/a/checkpoint*"):
        copy.write_bytes(whole[:-1])
    await on(tmp_path, second)


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
        stream.publishing.offer([(b"m.1", b"", b"", b"data")])
        assert (await stream.reading.state()).messages == 1

    async def second(domain: Domain) -> None:
        assert (await domain.stream("m").reading.state()).messages == 0
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
    await on(tmp_path, lambda domain: _are(domain, ["a"]))
    assert folders(tmp_path) == ["a"]


async def _are(domain: Domain, names: list[str]) -> None:
    assert domain.names() == names


async def _two_streams(domain: Domain) -> None:
    for name in ("a", "b"):
        stream, _ = await domain.create_stream(config(name))
        stream.publishing.offer([(f"{name}.1".encode(), b"", b"", b"data")])
        await stream.publishing.settled()


@pytest.mark.parametrize("left", ["nothing", "an empty file", "an empty database"])
async def test_a_lost_catalog_is_refused_and_nothing_is_erased(tmp_path: Path, left: str) -> None:
    await on(tmp_path, _two_streams)
    (tmp_path / "catalog.db").unlink()
    if left != "nothing":
        (tmp_path / "catalog.db").touch()
    if left == "an empty database":
        with sqlite3.connect(tmp_path / "catalog.db") as db:
            db.execute("PRAGMA journal_mode=WAL")
    with pytest.raises(CatalogError, match="headwater store repair"):
        await on(tmp_path, _has_none)
    assert folders(tmp_path) == ["a", "b"]


@pytest.mark.parametrize("copied", ["before the second stream", "without its log"])
async def test_an_older_catalog_shows_newer_streams_as_orphans_and_erases_nothing(
    tmp_path: Path, copied: str
) -> None:
    path = tmp_path / "catalog.db"

    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))

    async def more(domain: Domain) -> None:
        stream, _ = await domain.create_stream(config("b"))
        stream.publishing.offer([(b"b.1", b"", b"", b"data")])
        await stream.publishing.settled()
        if copied == "without its log":
            (tmp_path / "old.db").write_bytes(path.read_bytes())

    async def orphaned(domain: Domain) -> None:
        assert domain.names() == ["a", "b"]
        assert list(domain.offline) == ["b"]
        assert "headwater store repair" in domain.offline["b"]
        assert await refused(domain.create_stream(config("b"))) == 10194
        assert await refused(domain.create_stream(config("c", subjects=("b.1",)))) == 10065

    await on(tmp_path, first)
    (tmp_path / "old.db").write_bytes(path.read_bytes())
    await on(tmp_path, more)
    path.write_bytes((tmp_path / "old.db").read_bytes())
    await on(tmp_path, orphaned)
    await on(tmp_path, orphaned)
    assert folders(tmp_path) == ["a", "b"]


async def test_an_orphan_can_be_deleted_by_whoever_asks_for_it(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))

    async def forget(domain: Domain) -> None:
        await domain.create_stream(config("b"))
        domain._catalog.delete("$G", "b")

    async def delete(domain: Domain) -> None:
        assert list(domain.offline) == ["b"]
        await domain.delete_stream("b")
        await domain.create_stream(config("b"))

    await on(tmp_path, first)
    await on(tmp_path, forget)
    await on(tmp_path, delete)
    await on(tmp_path, lambda domain: _are(domain, ["a", "b"]))
    assert folders(tmp_path) == ["a", "b"]


async def test_a_crash_between_recorded_deletion_and_trash_still_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise DiskError(tmp_path, "rename", errno.EIO)

    async def crash(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))
        with monkeypatch.context() as patch:
            patch.setattr(Directories, "discard", broken)
            await domain.delete_stream("a")
        await domain.create_stream(config("a", description="second"))

    async def again(domain: Domain) -> None:
        assert domain.names() == ["a", "b"]
        assert domain.stream("a").config.description == "second"

    await on(tmp_path, crash)
    assert len(folders(tmp_path)) == 3
    await on(tmp_path, again)
    assert len(folders(tmp_path)) == 2


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
            patch.setattr(catalog, "_own", refusing_from(2, catalog._own))
            assert await refused(domain.create_stream(config("b"))) == 10049
        assert len(catalog.streams("$G")) == 2, "the row was left behind"
        await domain.create_stream(config("c"))

    await on(tmp_path, create)
    await on(tmp_path, lambda domain: _are(domain, ["a", "c"]))


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


async def test_a_stream_deleted_while_its_identity_cannot_be_read_stays_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(self: RealDisk, path: Path) -> bytes:
        if path.name == "identity.json":
            raise DiskError(path, "read", errno.EIO)
        return path.read_bytes()

    async def delete(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))
        with monkeypatch.context() as patch:
            patch.setattr(RealDisk, "read_all", unreadable)
            await domain.delete_stream("a")
        assert domain.names() == ["b"]

    await on(tmp_path, delete)
    await on(tmp_path, lambda domain: _are(domain, ["b"]))
    assert folders(tmp_path) == ["b"]


async def test_a_directory_that_comes_back_after_its_stream_was_deleted_is_kept(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a"))
        await domain.create_stream(config("b"))

    async def delete(domain: Domain) -> None:
        await domain.delete_stream("a")

    async def orphaned(domain: Domain) -> None:
        assert list(domain.offline) == ["a"]

    await on(tmp_path, first)
    (tmp_path / "$G" / "a").rename(tmp_path / "away")
    await on(tmp_path, delete)
    (tmp_path / "away").rename(tmp_path / "$G" / "a")
    await on(tmp_path, orphaned)
    assert folders(tmp_path) == ["a", "b"]


async def test_a_newer_config_beside_the_data_counts_more_than_an_older_catalog(tmp_path: Path) -> None:
    path = tmp_path / "catalog.db"

    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a", description="one"))

    async def update(domain: Domain) -> None:
        await domain.update_stream(config("a", description="two"))

    async def has_two(domain: Domain) -> None:
        assert domain.stream("a").config.description == "two"

    await on(tmp_path, first)
    older = path.read_bytes()
    await on(tmp_path, update)
    path.write_bytes(older)
    await on(tmp_path, has_two)
    catalog = Catalog(path)
    assert '"two"' in catalog.streams("$G")[0].config
    catalog.close()


async def test_memory_streams_have_their_declaration_on_the_disk(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("m", storage=Storage.MEMORY))

    await on(tmp_path, first)
    assert sorted(p.name for p in (tmp_path / "$G" / "m").iterdir()) == ["declared.json", "identity.json"]
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(CatalogError, match="headwater store repair"):
        await on(tmp_path, _has_none)


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


async def test_a_failed_update_is_taken_back_once_the_disk_lets_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(domain_module, "TAKE_BACK_S", 0.01)
    replace = Catalog.replace
    refusals = 3

    def refusing(self: Catalog, row: StreamRow) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            raise sqlite3.OperationalError("disk I/O error")
        replace(self, row)

    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a", description="old"))
        monkeypatch.setattr(Catalog, "replace", refusing)
        assert await refused(domain.update_stream(config("a", description="new"))) == 10069
        await until(lambda: not domain._retries)
        assert not refusals

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


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_stream_whose_opening_hangs_is_offline_until_it_is_open_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    async with services(tmp_path) as shared:
        async with opened_domain(tmp_path, shared) as domain:
            for name in "abc":
                await domain.create_stream(config(name))
        monkeypatch.setattr(domain_module, "OPEN_WITHIN_S", 0.1)
        open_stream, go_on = Stream.open, asyncio.Event()

        async def hanging(directory: Path, declared: StreamConfig, **named: Any) -> Stream:
            if declared.name == "b":
                await go_on.wait()
            return await open_stream(directory, declared, **named)

        monkeypatch.setattr(Stream, "open", hanging)
        async with opened_domain(tmp_path, shared) as domain:
            seen = Seen()
            domain.observe(seen)
            assert (domain.names(), list(domain.offline)) == (["a", "b", "c"], ["b"])
            assert "still being opened" in domain.offline["b"]
            assert (domain.stream("a").name, domain.find("b")) == ("a", None)
            if deleted:
                await domain.delete_stream("b")
            go_on.set()
            await until(lambda: not domain._openings)
            assert (domain.find("b") is None) == deleted
            assert not domain.offline
            assert (("opened", "b") in seen.events) == (not deleted)
        async with opened_domain(tmp_path, shared) as domain:
            assert domain.names() == (["a", "c"] if deleted else ["a", "b", "c"])


@pytest.mark.parametrize("hangs", ["_prepare", "open"])
@pytest.mark.parametrize("fails", [False, True])
async def test_a_stream_that_is_made_again_while_one_of_its_name_is_still_being_opened_is_the_only_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: str, fails: bool
) -> None:
    """The opening goes on in the deleted stream's directory, and shows, declares and touches nothing else."""
    async with services(tmp_path) as shared:
        async with opened_domain(tmp_path, shared) as domain:
            await domain.create_stream(config("b", description="old"))
            await publish(domain.stream("b"), (b"b.1", b"old"))
            old = domain.stream("b").directory
        monkeypatch.setattr(domain_module, "OPEN_WITHIN_S", 0.1)
        monkeypatch.setattr(reopening, "FIRST_PAUSE_S", 0.05)
        hung = HungCalls()
        hung.fails = fails
        owner, name = (Domain, "_prepare") if hangs == "_prepare" else (stream_module, "Store")
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, hung.before(getattr(owner, name)))
            try:
                async with opened_domain(tmp_path, shared) as domain:
                    seen = Seen()
                    domain.observe(seen)
                    await until(lambda: hung.count == 1)
                    patch.undo()
                    monkeypatch.setattr(reopening, "FIRST_PAUSE_S", 0.05)
                    await domain.delete_stream("b")
                    await domain.create_stream(config("b", description="new"))
                    made = domain.stream("b")
                    await publish(made, (b"b.1", b"new"))
                    hung.heal()
                    await until(lambda: not domain._openings and not domain._removals)
                    await asyncio.sleep(0.3)
                    await publish(made, (b"b.2", b"newer"))
                    assert domain.stream("b") is made
                    assert not domain.offline
                    assert seen.events == [("opened", "b")]
                    assert not old.exists()
            finally:
                hung.heal()
        async with opened_domain(tmp_path, shared) as domain:
            assert (domain.names(), dict(domain.offline)) == (["b"], {})
            assert domain.stream("b").config.description == "new"
            assert [message.data for message in await everything(domain.stream("b"))] == [b"new", b"newer"]
            assert [path.name for path in domain._homes.root.iterdir()] == [domain.stream("b").directory.name]
