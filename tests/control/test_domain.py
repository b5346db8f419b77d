"""Streams are declared once, changed durably, and survive restarts and crashes."""

from __future__ import annotations

import asyncio
import errno
import sqlite3
from pathlib import Path

import pytest

from control.domains import Seen, config, folders, has_none, on, refused
from headwater.control import domain as domain_module
from headwater.control.account import AccountLimits
from headwater.control.catalog import Catalog
from headwater.control.catalog_file import CatalogError
from headwater.control.catalog_rows import StreamRow
from headwater.control.domain import Domain
from headwater.errors import ApiError, DiskError
from headwater.model.stream import Retention, Storage
from headwater.stream.retention.retention import StreamRetention
from headwater.stream.stream import Stream
from waits import until


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


async def test_names_are_found_by_the_subjects_they_listen_on(tmp_path: Path) -> None:
    async def work(domain: Domain) -> None:
        for name in ("c", "a", "b"):
            await domain.create_stream(config(name))
        assert domain.names() == ["a", "b", "c"]
        assert domain.names("b.1") == ["b"]
        assert domain.names("*.1") == ["a", "b", "c"]
        assert domain.names("d") == []

    await on(tmp_path, work)


async def test_observers_get_all_events_also_when_they_come_late(tmp_path: Path) -> None:
    seen, late = Seen(), Seen()

    async def work(domain: Domain) -> None:
        domain.observe(seen)
        await domain.create_stream(config("a", description="one"))
        await domain.create_stream(config("b"))
        domain.observe(late)
        await domain.update_stream(config("a", description="two"))
        await domain.delete_stream("a")

    await on(tmp_path, work)
    later = [("changed from 'one'", "a"), ("closed", "a"), ("closed", "b")]
    assert seen.events == late.events == [("opened", "a"), ("opened", "b"), *later]


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
        await on(tmp_path, has_none)
    assert folders(tmp_path) == ["a", "b"]


async def test_memory_streams_have_their_declaration_on_the_disk(tmp_path: Path) -> None:
    async def first(domain: Domain) -> None:
        await domain.create_stream(config("m", storage=Storage.MEMORY))

    await on(tmp_path, first)
    assert sorted(p.name for p in (tmp_path / "$G" / "m").iterdir()) == ["declared.json", "identity.json"]
    (tmp_path / "catalog.db").unlink()
    with pytest.raises(CatalogError, match="headwater store repair"):
        await on(tmp_path, has_none)


async def test_a_failed_update_leaves_the_old_config_in_force_and_in_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise DiskError(tmp_path, "write", errno.EIO)

    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a", description="old"))
        with monkeypatch.context() as patch:
            patch.setattr(Stream, "use", broken)
            assert await refused(domain.update_stream(config("a", description="new"))) == 10069
        assert [c.description for c in domain.configs()] == ["old"]

    async def second(domain: Domain) -> None:
        assert domain.stream("a").config.description == "old"

    await on(tmp_path, first)
    await on(tmp_path, second)


async def test_an_update_that_ends_while_it_removes_messages_is_not_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stopping engine waits a limited time for a request. Messages removed until then stay removed."""
    removing = asyncio.Event()

    async def for_ever(*_: object) -> None:
        removing.set()
        await asyncio.Event().wait()

    async def first(domain: Domain) -> None:
        await domain.create_stream(config("a", retention=Retention.LIMITS))
        monkeypatch.setattr(StreamRetention, "drop_unneeded", for_ever)
        update = asyncio.ensure_future(domain.update_stream(config("a", retention=Retention.INTEREST)))
        await removing.wait()
        update.cancel()
        await asyncio.wait({update})
        assert [c.retention for c in domain.configs()] == [Retention.INTEREST]

    async def second(domain: Domain) -> None:
        assert domain.stream("a").config.retention == Retention.INTEREST

    await on(tmp_path, first)
    monkeypatch.undo()
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
