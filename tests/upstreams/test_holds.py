"""An origin of the same engine keeps a message until every target has committed it, and lets it go then."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from control.copiers import Copier, copying, count_is, create, held, publish
from doors import Door, Wanted
from headwater.errors import api_error
from headwater.replication.work import Receipt
from headwater.upstreams.holds import UpstreamHold
from waits import until

pytestmark = pytest.mark.usefixtures("impatient")

RETENTIONS = ["workqueue", "interest"]


async def emptied(door: Door, name: str, left: int = 0) -> None:
    """Return once the stream holds so many messages."""
    await until(count_is(door, name, left), f"{name} holds {left}")


async def stays(copier: Copier, door: Door, name: str, count: int) -> None:
    """Copy for a while; nothing of the stream may go."""
    for _ in range(3):
        await copier.tick()
    assert (await door.domain.stream(name).reading.state()).messages == count


@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("storage", ["file", "memory"])
async def test_a_message_leaves_once_the_target_has_it(tmp_path: Path, retention: str, storage: str) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="S", storage=storage, sources=[{"name": "O"}])
        await create(door, name="O", subjects=["o"], retention=retention)
        await publish(door, "o", 20)
        assert (await door.domain.stream("O").reading.state()).messages == 20
        await copier.until(count_is(door, "S", 20))
        await emptied(door, "O")
        await publish(door, "o", 5, start=20)
        await copier.until(count_is(door, "S", 25))
        await emptied(door, "O")
        assert [m.data for m in await held(door, "S")] == [b"o %d" % number for number in range(25)]
        assert "gap" not in str(await door.asker.ask("STREAM.INFO.S"))


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_messages_from_the_table_leave_too(tmp_path: Path, retention: str) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o.>"], retention=retention)
        await create(door, name="S", sources=[{"name": "O", "filter_subject": "o.a"}])
        for subject in ("o.a", "o.b"):
            await publish(door, subject, 10)
            await door.domain.stream("O").checkpoint()
        await copier.until(count_is(door, "S", 10))
        # A queue keeps what nobody takes; by interest it was never stored.
        await emptied(door, "O", 10 if retention == "workqueue" else 0)
        assert {m.subject for m in await held(door, "O")} <= {b"o.b"}


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_every_target_must_have_it(tmp_path: Path, retention: str) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], retention=retention)
        await create(door, name="A", sources=[{"name": "O"}])
        await create(door, name="B", mirror={"name": "O"})
        await publish(door, "o", 8)

        def only_a(receipts: list[Receipt]) -> list[Receipt]:
            return [receipt for receipt in receipts if receipt.target == "A"]

        copier.between = only_a
        await copier.until(count_is(door, "A", 8))
        await stays(copier, door, "O", 8)
        copier.between = lambda receipts: receipts
        await copier.until(count_is(door, "B", 8))
        await emptied(door, "O")


@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("first", ["consumer", "upstream"])
async def test_a_consumer_and_an_upstream_must_both_be_done_with_it(
    tmp_path: Path, retention: str, first: str
) -> None:
    async with copying(tmp_path, Wanted(leaf=True)) as (door, copier):
        await create(door, name="O", subjects=["o"], retention=retention)
        await create(door, name="S", sources=[{"name": "O"}])
        made = {"stream_name": "O", "config": {"durable_name": "C", "ack_policy": "explicit"}}
        assert "error" not in await door.asker.ask("CONSUMER.DURABLE.CREATE.O.C", made)
        await publish(door, "o", 6)

        async def consume() -> None:
            box = door.asker.listen("box")
            door.asker.connection.publish(b"$JS.API.CONSUMER.MSG.NEXT.O.C", b"6", b"box")
            for _ in range(6):
                await door.asker.raw((await box.next())[1].decode(), b"")

        if first == "consumer":
            await consume()
            assert (await door.domain.stream("O").reading.state()).messages == 6
            await copier.until(count_is(door, "S", 6))
        else:
            await copier.until(count_is(door, "S", 6))
            await stays(copier, door, "O", 6)
            await consume()
        await emptied(door, "O")


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_withdrawing_an_upstream_releases_what_only_it_held(tmp_path: Path, retention: str) -> None:
    async with copying(tmp_path) as (door, _):
        await create(door, name="O", subjects=["o"], retention=retention)
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 4)
        assert "error" not in await door.asker.ask("STREAM.UPDATE.S", {"name": "S", "sources": []})
        # Nobody has taken what is in a queue, so it stays there for who comes.
        await emptied(door, "O", 4 if retention == "workqueue" else 0)
        await publish(door, "o", 1)
        await emptied(door, "O", 5 if retention == "workqueue" else 0)


async def test_a_deleted_target_holds_nothing(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, _):
        await create(door, name="S", sources=[{"name": "O"}])
        await create(door, name="O", subjects=["o"], retention="interest")
        await publish(door, "o", 4)
        await door.asker.ask("STREAM.DELETE.S")
        await emptied(door, "O")


async def test_another_filter_holds_before_the_old_one_releases(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o.>"], retention="interest")
        await create(door, name="S", sources=[{"name": "O", "filter_subject": "o.a"}])
        await publish(door, "o.a", 4)
        config = {"name": "S", "sources": [{"name": "O", "filter_subject": "o.*"}]}
        assert "error" not in await door.asker.ask("STREAM.UPDATE.S", config)
        await publish(door, "o.b", 4)
        await copier.until(count_is(door, "S", 8))
        await emptied(door, "O")


async def test_a_re_created_origin_is_held_from_its_start(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], retention="interest")
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 5)
        await copier.until(count_is(door, "S", 5))
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"], retention="interest")
        await publish(door, "o", 3)
        assert (await door.domain.stream("O").reading.state()).messages == 3
        await copier.until(count_is(door, "S", 8))
        await emptied(door, "O")


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_what_was_committed_before_a_crash_leaves_after_it(
    tmp_path: Path, retention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], retention=retention)
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 10)
        with monkeypatch.context() as without:
            without.setattr("headwater.upstreams.holds.UpstreamHolds.committed", lambda *_: None)
            await copier.until(count_is(door, "S", 10))
        await publish(door, "o", 2, start=10)
        assert (await door.domain.stream("O").reading.state()).messages == 12
        monkeypatch.setattr("headwater.upstreams.holds.UpstreamHolds.retry", lambda *_: None)
    # The store is closed with all of it: the engine ended between the commit and the removal.
    async with copying(tmp_path) as (door, copier):
        await emptied(door, "O", 2)
        await copier.until(count_is(door, "S", 12))
        await emptied(door, "O")
        assert [m.data for m in await held(door, "S")] == [b"o %d" % number for number in range(12)]


async def test_a_restart_lets_nothing_go_that_was_not_copied(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, _):
        await create(door, name="O", subjects=["o"], retention="interest")
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 10)
    async with copying(tmp_path) as (door, copier):
        assert (await door.domain.stream("O").reading.state()).messages == 10
        await publish(door, "o", 1, start=10)
        await copier.until(count_is(door, "S", 11))
        await emptied(door, "O")


async def test_a_start_leaves_what_lies_before_it_in_a_queue(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], retention="workqueue")
        await publish(door, "o", 10)
        fourth = await door.asker.ask("STREAM.MSG.GET.O", {"seq": 4})
        config: dict[str, Any] = {"name": "O", "opt_start_time": fourth["message"]["time"]}
        await create(door, name="T", sources=[config])
        await create(door, name="S", sources=[{"name": "O", "opt_start_seq": 6}])
        await copier.until(count_is(door, "T", 7))
        await copier.until(count_is(door, "S", 5))
        await emptied(door, "O", 3)
        assert [m.seq for m in await held(door, "O")] == [1, 2, 3]


async def test_a_change_to_interest_retention_keeps_what_is_not_copied(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 5)
        await copier.until(count_is(door, "S", 5))
        await publish(door, "o", 3, start=5)
        config = {"name": "O", "subjects": ["o"], "retention": "interest"}
        assert "error" not in await door.asker.ask("STREAM.UPDATE.O", config)
        await copier.until(count_is(door, "S", 8))
        await emptied(door, "O")


@pytest.mark.parametrize("kind", ["source", "mirror"])
async def test_an_interest_target_stores_what_a_consumer_wants_and_its_origin_releases_all(
    tmp_path: Path, kind: str
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o.>"], retention="workqueue")
        copied: dict[str, Any] = (
            {"mirror": {"name": "O"}} if kind == "mirror" else {"sources": [{"name": "O"}]}
        )
        await create(door, name="T", retention="interest", **copied)
        await create(door, name="LAST", sources=[{"name": "T", "filter_subject": "o.a"}])
        for number in range(6):
            await publish(door, f"o.{'ab'[number % 2]}", 1, start=number)
        await copier.until(count_is(door, "LAST", 3))
        await emptied(door, "O")
        await emptied(door, "T")
        assert (await door.domain.stream("T").reading.state()).last_seq == 6
        assert [m.data for m in await held(door, "LAST")] == [b"o.a 0", b"o.a 2", b"o.a 4"]


async def test_a_target_that_cannot_be_opened_holds_everything(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], retention="interest")
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 2)
        await copier.until(count_is(door, "S", 2))
        await emptied(door, "O")
        directory = door.domain.stream("S").directory
    (directory / "identity.json").rename(tmp_path / "kept.json")
    async with copying(tmp_path) as (door, _):
        assert "S" in door.domain.offline
        await publish(door, "o", 3)
        assert (await door.domain.stream("O").reading.state()).messages == 3


async def test_a_deleted_target_that_could_not_be_opened_holds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copying(tmp_path) as (door, _):
        await create(door, name="O", subjects=["o"], retention="interest")
        await create(door, name="S", sources=[{"name": "O"}])
        directory = door.domain.stream("S").directory
    (directory / "identity.json").rename(tmp_path / "kept.json")
    monkeypatch.setattr("headwater.upstreams.upstreams.WATCH_S", 0.02)
    async with copying(tmp_path) as (door, _):
        await publish(door, "o", 3)
        assert (await door.domain.stream("O").reading.state()).messages == 3
        await door.asker.ask("STREAM.DELETE.S")
        await emptied(door, "O")
        await publish(door, "o", 1)
        assert (await door.domain.stream("O").reading.state()).messages == 0


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_what_a_disk_refused_to_remove_is_removed_later(
    tmp_path: Path, retention: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.upstreams.upstreams.WATCH_S", 0.05)
    follow = UpstreamHold.follow
    refused: list[UpstreamHold] = []

    async def refused_twice(kept: UpstreamHold) -> None:
        if len(refused) < 2:
            refused.append(kept)
            raise api_error("stream_store_failed", err="the disk refuses")
        await follow(kept)

    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], retention=retention)
        await create(door, name="A", sources=[{"name": "O"}])
        await create(door, name="B", mirror={"name": "O"})
        await publish(door, "o", 6)
        monkeypatch.setattr(UpstreamHold, "follow", refused_twice)
        await copier.until(count_is(door, "A", 6))
        await copier.until(count_is(door, "B", 6))
        await emptied(door, "O")
