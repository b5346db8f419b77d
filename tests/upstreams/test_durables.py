"""A remote work-queue or interest stream keeps a message until the target has committed it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from pyroaring import BitMap64

from control.copiers import count_is, create, held
from control.remote_origins import RemoteSites, a_nats_server, another_headwater, remote_sites
from control.test_refused_copies import refusing
from headwater.model.cursor import Cursor
from headwater.replication.durable import create_request
from headwater.replication.work import Receipt
from headwater.upstreams.durables import _OwedAcks
from waits import until

pytestmark = pytest.mark.usefixtures("impatient")

RETENTIONS = ["workqueue", "interest"]


@pytest.fixture(params=[a_nats_server, another_headwater], ids=lambda site: site.__name__)
async def sites(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[RemoteSites]:
    async with remote_sites(request.param, tmp_path) as running:
        yield running


@pytest.fixture
async def hub(tmp_path: Path) -> AsyncIterator[RemoteSites]:
    async with remote_sites(a_nats_server, tmp_path) as running:
        yield running


async def has_consumer(sites: RemoteSites, stream: str = "O", count: int = 1) -> None:
    """Return once the origin has our consumer."""

    async def made() -> bool:
        await sites.copier.tick()
        return len(await sites.consumers(stream)) == count

    await until(made, "the origin has our consumer")


async def texts(sites: RemoteSites, stream: str) -> list[int]:
    return [int(message.data) for message in await held(sites.door, stream)]


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_a_message_leaves_once_the_target_has_it(sites: RemoteSites, retention: str) -> None:
    await sites.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": retention})
    await create(sites.door, name="S", sources=[sites.source("O")])
    await has_consumer(sites)
    await sites.pour("o", 30)
    sites.copier.between = lambda receipts: []
    await sites.copier.tick()
    assert await sites.left("O") == 30
    sites.copier.between = lambda receipts: receipts
    await sites.copier.until(count_is(sites.door, "S", 30))
    await sites.emptied("O")
    await sites.pour("o", 5, start=30)
    await sites.copier.until(count_is(sites.door, "S", 35))
    await sites.emptied("O")
    assert await texts(sites, "S") == list(range(35))
    (info,) = (await sites.door.asker.ask("STREAM.INFO.S"))["sources"]
    assert (info["lag"], "error" in info) == (0, False)


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_a_lost_link_loses_and_repeats_nothing(sites: RemoteSites, retention: str) -> None:
    await sites.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": retention})
    await create(sites.door, name="M", mirror=sites.source("O"))
    await has_consumer(sites)
    await sites.pour("o", 40)
    kept: list[Receipt] = []
    sites.copier.between = lambda receipts: kept.extend(receipts) or []  # type: ignore[func-returns-value]
    await until(lambda: _planned(sites, kept), "a receipt")
    # Committed while the link is down: none of these acknowledgements arrives.
    await sites.link.cut()
    assert await sites.copier.hand_in(kept) == 40
    await sites.pour("o", 20, start=40)
    assert await sites.left("O") == 60
    sites.copier.between = lambda receipts: receipts
    await sites.link.restore()
    await sites.copier.until(count_is(sites.door, "M", 60))
    await sites.emptied("O")
    assert await texts(sites, "M") == list(range(60))
    assert [message.seq for message in await held(sites.door, "M")] == list(range(1, 61))


async def _planned(sites: RemoteSites, kept: list[Receipt]) -> bool:
    await sites.copier.tick()
    return bool(kept)


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_what_was_read_and_not_committed_comes_again_in_order(
    sites: RemoteSites, retention: str
) -> None:
    await sites.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": retention})
    await create(sites.door, name="S", sources=[sites.source("O")])
    await has_consumer(sites)
    await sites.pour("o", 20)

    def broken(receipts: list[Receipt]) -> list[Receipt]:
        sites.copier.between = lambda fine: fine
        return [msgspec.structs.replace(r, rows=0, data=b"", settled=b"", error="no") for r in receipts]

    sites.copier.between = broken
    await sites.copier.tick()
    await sites.pour("o", 20, start=20)
    await sites.copier.until(count_is(sites.door, "S", 40))
    await sites.emptied("O")
    assert await texts(sites, "S") == list(range(40))


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_the_consumer_at_an_older_server_is_re_created(
    hub: RemoteSites, retention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.replication.durable.can_reset", lambda info: False)
    await test_what_was_read_and_not_committed_comes_again_in_order(hub, retention)
    assert len(await hub.consumers("O")) == 1


async def test_an_engine_that_forgot_what_it_owes_finds_out(tmp_path: Path) -> None:
    async with a_nats_server(tmp_path) as (server, asker, api):

        class Same:
            """The same site for a second engine."""

            def __init__(self, store: Path) -> None: ...

            async def __aenter__(self) -> object:
                return server, asker, api

            async def __aexit__(self, *_: object) -> None: ...

        async with remote_sites(Same, tmp_path) as sites:
            await sites.origin.ask(
                "STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": "workqueue"}
            )
            await create(sites.door, name="S", sources=[sites.source("O")])
            await sites.pour("o", 10)

            def unacked(receipts: list[Receipt]) -> list[Receipt]:
                return [msgspec.structs.replace(receipt, settled=b"") for receipt in receipts]

            sites.copier.between = unacked
            await sites.copier.until(count_is(sites.door, "S", 10))
            assert await sites.left("O") == 10
        async with remote_sites(Same, tmp_path) as sites:
            await sites.emptied("O")
            assert await texts(sites, "S") == list(range(10))
            assert len(await sites.consumers("O")) == 1


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_a_filter_takes_only_its_own_and_lag_counts_only_that(
    sites: RemoteSites, retention: str
) -> None:
    await sites.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.>"], "retention": retention})
    await create(sites.door, name="S", sources=[sites.source("O", filter_subject="o.a")])
    await has_consumer(sites)
    sites.copier.between = lambda receipts: []
    for number in range(6):
        await sites.pour(f"o.{'ab'[number % 2]}", 1, start=number)

    async def lags() -> bool:
        await sites.copier.tick()
        return bool((await sites.door.asker.ask("STREAM.INFO.S"))["sources"][0]["lag"] == 3)

    await until(lags, "the lag is what the filter takes")
    sites.copier.between = lambda receipts: receipts
    await sites.copier.until(count_is(sites.door, "S", 3))
    await sites.emptied("O", 3 if retention == "workqueue" else 0)
    assert await texts(sites, "S") == [0, 2, 4]


async def test_two_upstreams_and_a_consumer_on_one_queue_must_all_be_done(hub: RemoteSites) -> None:
    await hub.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": "workqueue"})
    made = {"stream_name": "O", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    assert "error" not in await hub.origin.ask("CONSUMER.DURABLE.CREATE.O.C", made)
    await create(hub.door, name="A", sources=[hub.source("O")])
    await create(hub.door, name="B", mirror=hub.source("O"))
    await has_consumer(hub, count=3)
    await hub.pour("o", 6)
    await hub.copier.until(count_is(hub.door, "A", 6))
    await hub.copier.until(count_is(hub.door, "B", 6))
    assert await hub.left("O") == 6
    box = hub.origin.listen("box")
    hub.origin.connection.publish(b"$JS.API.CONSUMER.MSG.NEXT.O.C", b"6", b"box")
    for _ in range(6):
        await hub.origin.raw((await box.next())[1].decode(), b"")
    await hub.emptied("O")


async def test_an_origin_that_refuses_our_consumer_is_heard(
    hub: RemoteSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    def older(*args: Any) -> Any:
        request = create_request(*args)
        del request["config"]["sourcing"]
        return request

    monkeypatch.setattr("headwater.replication.durable.create_request", older)
    await hub.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": "workqueue"})
    made = {"stream_name": "O", "config": {"durable_name": "C", "ack_policy": "explicit"}}
    assert "error" not in await hub.origin.ask("CONSUMER.DURABLE.CREATE.O.C", made)
    await create(hub.door, name="S", sources=[hub.source("O")])

    async def heard() -> bool:
        await hub.copier.tick()
        error = (await hub.door.asker.ask("STREAM.INFO.S"))["sources"][0].get("error", {})
        return bool(error.get("err_code") == 10099)

    await until(heard, "the origin's own error")


async def test_the_consumer_goes_with_its_upstream(sites: RemoteSites) -> None:
    await sites.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": "interest"})
    await create(sites.door, name="S", sources=[sites.source("O")])
    await has_consumer(sites)
    (name,) = await sites.consumers("O")
    assert name.startswith("HEADWATER_")
    await sites.door.asker.ask("STREAM.DELETE.S")

    async def gone() -> bool:
        return not await sites.consumers("O")

    await until(gone, "our consumer is removed")


async def test_the_consumer_goes_when_the_link_is_back(
    hub: RemoteSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.upstreams.durables.AGAIN_S", 0.1)
    await hub.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": "interest"})
    await create(hub.door, name="S", sources=[hub.source("O")])
    await has_consumer(hub)
    await hub.link.cut()
    assert "error" not in await hub.door.asker.ask("STREAM.UPDATE.S", {"name": "S", "sources": []})
    assert len(await hub.consumers("O")) == 1
    await hub.link.restore()

    async def gone() -> bool:
        return not await hub.consumers("O")

    await until(gone, "our consumer is removed")


async def test_a_source_declared_again_keeps_the_consumer_that_was_to_go(
    hub: RemoteSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.upstreams.durables.AGAIN_S", 0.1)
    await hub.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": "interest"})
    config = {"name": "S", "sources": [hub.source("O")]}
    await create(hub.door, **config)
    await has_consumer(hub)
    await hub.pour("o", 3)
    await hub.link.cut()
    assert "error" not in await hub.door.asker.ask("STREAM.UPDATE.S", {"name": "S", "sources": []})
    assert "error" not in await hub.door.asker.ask("STREAM.UPDATE.S", config)
    await hub.link.restore()
    await hub.copier.until(count_is(hub.door, "S", 3))
    await hub.emptied("O")
    assert len(await hub.consumers("O")) == 1


async def test_a_re_created_origin_is_copied_from_its_start(hub: RemoteSites) -> None:
    config = {"name": "O", "subjects": ["o"], "retention": "workqueue"}
    await hub.origin.ask("STREAM.CREATE.O", config)
    await create(hub.door, name="S", sources=[hub.source("O")])
    await hub.pour("o", 5)
    await hub.copier.until(count_is(hub.door, "S", 5))
    await hub.emptied("O")
    await hub.origin.ask("STREAM.DELETE.O")
    await hub.origin.ask("STREAM.CREATE.O", {**config, "storage": "memory"})
    await hub.pour("o", 3, start=5)
    await hub.copier.until(count_is(hub.door, "S", 8))
    await hub.emptied("O")
    assert await texts(hub, "S") == list(range(8))


async def test_an_origin_s_own_limit_of_unacknowledged_messages_holds(tmp_path: Path) -> None:
    async with remote_sites(a_nats_server, tmp_path) as hub:
        config = {"name": "O", "subjects": ["o"], "retention": "workqueue"}
        limits = {"consumer_limits": {"max_ack_pending": 5}}
        assert "error" not in await hub.origin.ask("STREAM.CREATE.O", {**config, **limits})
        await create(hub.door, name="S", sources=[hub.source("O")])
        await hub.pour("o", 12)
        await hub.copier.until(count_is(hub.door, "S", 12))
        await hub.emptied("O")
        assert await texts(hub, "S") == list(range(12))


async def test_another_filter_has_its_consumer_before_the_old_one_goes(hub: RemoteSites) -> None:
    await hub.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o.*"], "retention": "interest"})
    await create(hub.door, name="S", sources=[hub.source("O", filter_subject="o.a")])
    await has_consumer(hub)
    (old,) = await hub.consumers("O")
    await hub.pour("o.a", 5)
    config = {"name": "S", "sources": [hub.source("O", filter_subject="o.*")]}
    assert "error" not in await hub.door.asker.ask("STREAM.UPDATE.S", config)
    await hub.copier.until(count_is(hub.door, "S", 5))
    await hub.emptied("O")

    async def gone() -> bool:
        return old not in await hub.consumers("O")

    await until(gone, "the old consumer is removed")


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_a_write_that_the_target_refused_acknowledges_nothing(hub: RemoteSites, retention: str) -> None:
    await hub.origin.ask("STREAM.CREATE.O", {"name": "O", "subjects": ["o"], "retention": retention})
    await create(hub.door, name="S", sources=[hub.source("O")])
    await has_consumer(hub)
    await hub.pour("o", 20)
    kept: list[Receipt] = []

    def as_if_nothing_new(receipts: list[Receipt]) -> list[Receipt]:
        """Return what a task hands in that was delivered what the refused cursor seemed to cover."""
        kept.extend(receipts)
        return receipts

    hub.copier.between = as_if_nothing_new
    with refusing(hub.door, "S"):
        while not kept:
            await hub.copier.tick()
        (receipt,) = kept
        upstream = hub.door.upstreams.of("S")[0]
        assert upstream.cursor.seq == 20
        assert upstream.durable_cursor.seq == 0
        # Whatever a receipt says, what is acknowledged lies under the durable cursor.
        hub.door.upstreams._durables.committed(upstream, receipt)
        for _ in range(5):
            await hub.copier.tick()
        assert await hub.left("O") == 20
    await hub.copier.until(count_is(hub.door, "S", 20))
    await hub.emptied("O")
    assert await texts(hub, "S") == list(range(20))


async def test_removing_a_source_of_an_origin_that_never_was_is_said_once(
    hub: RemoteSites, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    for name, value in {"AGAIN_S": 0.001, "LONGEST_AGAIN_S": 0.002, "MOST_TRIES": 20}.items():
        monkeypatch.setattr(f"headwater.upstreams.durables.{name}", value)
    source = {"name": "O", "external": {"api": "$JS.mistyped.API"}}
    await create(hub.door, name="S", sources=[source])
    await hub.door.asker.ask("STREAM.UPDATE.S", {"name": "S", "subjects": ["s"], "sources": []})
    await until(lambda: "remove it by hand" in caplog.text, "it is given up")
    assert caplog.text.count("will try again") == 1


def test_what_is_owed_lies_under_the_durable_cursor_of_the_origin_that_it_is_owed_to() -> None:
    acks = _OwedAcks()
    acks.add(Cursor("one", 5), BitMap64([3, 4, 5, 6]))
    assert set(acks.owed) == {3, 4, 5}
    acks.add(Cursor("one", 8), BitMap64([6, 7, 8]))
    assert set(acks.owed) == {3, 4, 5, 6, 7, 8}
    acks.add(Cursor("one", 4), BitMap64([4]))  # it went back
    assert set(acks.owed) == {3, 4}
    acks.add(Cursor("another", 9), BitMap64([1]))
    assert set(acks.owed) == {1}
