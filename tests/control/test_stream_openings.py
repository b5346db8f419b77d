"""A stream that cannot be opened is offline with a reason, is tried again, and does not delay the others."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from control.domains import Seen, config, folders, on, refused
from doors import opened_domain, services
from headwater.control import reopening, stream_openings
from headwater.control.catalog import Catalog
from headwater.control.domain import Domain
from headwater.control.stream_openings import StreamOpenings
from headwater.errors import ApiError
from headwater.model.stream import StreamConfig
from headwater.stream import stream as stream_module
from headwater.stream.stream import Stream
from hung_streams import HungCalls
from stream.streams import everything, publish
from waits import until


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


@pytest.mark.parametrize("when", ["created", "opened late"])
async def test_a_stream_that_an_observer_cannot_prepare_is_offline_and_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    monkeypatch.setattr("headwater.control.reopening.FIRST_PAUSE_S", 0.01)
    seen, healthy = Seen(), asyncio.Event()

    async def prepare(stream: Stream) -> None:
        if not healthy.is_set():
            raise sqlite3.OperationalError("disk I/O error")

    async def work(domain: Domain) -> None:
        domain.observe(seen, prepare)
        if when == "created":
            assert await refused(domain.create_stream(config("a"))) == 10049
        else:
            for copy in tmp_path.glob("*/a/checkpoint*"):
                copy.write_bytes(whole)
        await until(lambda: "I/O" in domain.offline.get("a", ""))
        assert seen.events == []
        healthy.set()
        await until(lambda: not domain.offline)
        assert seen.events == [("opened", "a")]
        await publish(domain.stream("a"), (b"a.b", b"more"))

    if when == "opened late":

        async def first(domain: Domain) -> None:
            stream, _ = await domain.create_stream(config("a"))
            stream.publishing.offer([(b"a.b", b"", b"", b"kept")])
            await stream.checkpoint()

        await on(tmp_path, first)
        whole = next(iter(tmp_path.glob("*/a/checkpoint"))).read_bytes()
        for copy in tmp_path.glob("*/a/checkpoint*"):
            copy.write_bytes(whole[:-1])
    await on(tmp_path, work)


async def test_a_broken_stream_is_offline_with_a_reason_and_the_others_continue(tmp_path: Path) -> None:
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
    (tmp_path / "$G" / "b").rename(tmp_path / "moved")
    await on(tmp_path, second)
    assert (tmp_path / "moved").exists()


async def test_a_stream_whose_table_is_destroyed_does_not_delay_the_others(
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


@pytest.mark.parametrize("deleted", [False, True])
async def test_a_stream_whose_opening_hangs_is_offline_until_it_is_open_and_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: bool
) -> None:
    async with services(tmp_path) as shared:
        async with opened_domain(tmp_path, shared) as domain:
            for name in "abc":
                await domain.create_stream(config(name))
        monkeypatch.setattr(stream_openings, "OPEN_WITHIN_S", 0.1)
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
    """The first opening continues in the directory of the deleted stream and changes nothing outside it."""
    async with services(tmp_path) as shared:
        async with opened_domain(tmp_path, shared) as domain:
            await domain.create_stream(config("b", description="old"))
            await publish(domain.stream("b"), (b"b.1", b"old"))
            old = domain.stream("b").directory
        monkeypatch.setattr(stream_openings, "OPEN_WITHIN_S", 0.1)
        monkeypatch.setattr(reopening, "FIRST_PAUSE_S", 0.05)
        hung = HungCalls()
        hung.fails = fails
        owner, name = (StreamOpenings, "_prepare") if hangs == "_prepare" else (stream_module, "Store")
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
            assert [path.name for path in domain._directories.homes.root.iterdir()] == [
                domain.stream("b").directory.name
            ]
