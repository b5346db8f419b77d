"""Streams with sources or a mirror get what their origins have, exactly once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from control.copiers import copying, count_is, create, held, publish
from headwater.replication.work import Receipt, commit_subject, plan_subject


async def test_a_mirror_holds_the_origin_s_messages_sequences_and_times(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o.>"])
        await publish(door, "o.a", 20)
        await door.domain.stream("O").retention.remove(5)
        await create(door, name="M", mirror={"name": "O"})
        await copier.until(count_is(door, "M", 19))
        assert await held(door, "M") == await held(door, "O")
        await door.domain.stream("O").checkpoint()
        await publish(door, "o.b", 20)
        await copier.until(count_is(door, "M", 39))
        assert await held(door, "M") == await held(door, "O")


async def test_sources_and_local_publishes_are_interleaved_in_order_per_origin(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="ORDERS", subjects=["orders"], storage="memory")
        await create(door, name="RETURNS", subjects=["returns"], storage="memory")
        await create(
            door, name="ARCHIVE", subjects=["archive"], sources=[{"name": "ORDERS"}, {"name": "RETURNS"}]
        )
        await create(door, name="REPORT", mirror={"name": "ARCHIVE"})
        for subject in ("orders", "returns", "archive"):
            await publish(door, subject, 30)
        await copier.until(count_is(door, "REPORT", 90))
        archive = await held(door, "ARCHIVE")
        assert await held(door, "REPORT") == archive
        for name in (b"orders", b"returns", b"archive"):
            texts = [m.data for m in archive if m.subject == name]
            assert texts == [b"%s %d" % (name, number) for number in range(30)]
        sourced = next(m for m in archive if m.subject == b"orders")
        assert b"Nats-Stream-Source: ORDERS 1 > > orders " in sourced.headers


async def test_filters_and_transforms_apply(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o.*"])
        for number in range(10):
            await door.asker.publish(f"o.{'ab'[number % 2]}", b"%d" % number)
        await create(door, name="F", sources=[{"name": "O", "filter_subject": "o.a"}])
        transforms = [{"src": "o.b", "dest": "seen.b"}]
        await create(door, name="T", sources=[{"name": "O", "subject_transforms": transforms}])
        await copier.until(count_is(door, "T", 5))
        await copier.until(count_is(door, "F", 5))
        assert {m.subject for m in await held(door, "F")} == {b"o.a"}
        assert {m.subject for m in await held(door, "T")} == {b"seen.b"}


async def test_start_options_say_where_an_upstream_begins(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 10)
        await create(door, name="S", sources=[{"name": "O", "opt_start_seq": 8}])
        await create(door, name="M", mirror={"name": "O", "opt_start_seq": 9})
        await copier.until(count_is(door, "S", 3))
        await copier.until(count_is(door, "M", 2))
        assert [m.seq for m in await held(door, "M")] == [9, 10]


async def test_an_origin_may_come_later_and_is_an_error_until_then(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="S", sources=[{"name": "LATER"}])
        await copier.tick()
        info = await door.asker.ask("STREAM.INFO.S")
        assert info["sources"][0]["error"]["err_code"] == 10059
        await create(door, name="LATER", subjects=["later"])
        await publish(door, "later", 3)
        await copier.until(count_is(door, "S", 3))
        info = await door.asker.ask("STREAM.INFO.S")
        assert "error" not in info["sources"][0]


async def test_a_receipt_that_comes_in_while_the_same_range_is_planned_again_is_not_copied_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="S", sources=[{"name": "O"}])
        late: list[Receipt] = []
        copier.between = lambda receipts: late.extend(receipts) or []  # type: ignore[func-returns-value]
        while not late:
            await copier.tick()
        origin = door.domain.stream("O").replica
        tail_from = origin.tail_from

        async def tail_with_a_commit_meanwhile(start_seq: int, max_bytes: int) -> tuple[bytes, int]:
            found = await tail_from(start_seq, max_bytes)
            if late:
                assert await copier.hand_in([late.pop()]) == 5
            return found

        monkeypatch.setattr(origin, "tail_from", tail_with_a_commit_meanwhile)
        # The replicator that asks again no longer lists the first piece, so it is planned again.
        copier.between = lambda receipts: receipts
        for _ in range(3):
            await copier.tick()
        assert not late
        await publish(door, "o", 1, start=5)
        await copier.until(count_is(door, "S", 6))
        assert [m.data for m in await held(door, "S")] == [b"o %d" % number for number in range(6)]


async def test_an_error_of_a_task_shows_and_is_tried_again(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        await create(door, name="M", mirror={"name": "O"})

        def broken(receipts: list[Receipt]) -> list[Receipt]:
            copier.between = lambda fine: fine
            return [
                msgspec.structs.replace(receipt, rows=0, data=b"", error="no disk") for receipt in receipts
            ]

        copier.between = broken
        assert await copier.tick() == 0
        info = await door.asker.ask("STREAM.INFO.M")
        assert info["mirror"]["error"]["description"] == "no disk"
        await copier.until(count_is(door, "M", 5))


@pytest.mark.parametrize("folded", [False, True])
async def test_copying_continues_where_it_was_after_a_restart(tmp_path: Path, folded: bool) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 10)
        await copier.until(count_is(door, "S", 10))
        if folded:
            await door.domain.stream("S").checkpoint()
    async with copying(tmp_path) as (door, copier):
        await publish(door, "o", 10, start=10)
        await copier.until(count_is(door, "S", 20))
        assert [m.data for m in await held(door, "S")] == [b"o %d" % number for number in range(20)]


async def test_a_re_created_origin_of_a_source_is_copied_from_its_start(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="S", sources=[{"name": "O"}])
        await publish(door, "o", 5)
        await copier.until(count_is(door, "S", 5))
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 3)
        await copier.until(count_is(door, "S", 8))


async def test_a_mirror_of_a_re_created_stream_stops_with_an_error(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 5)
        await copier.until(count_is(door, "M", 5))
        await door.asker.ask("STREAM.DELETE.O")
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 9)
        await copier.tick()
        info = await door.asker.ask("STREAM.INFO.M")
        assert "re-created" in info["mirror"]["error"]["description"]
        assert (await door.domain.stream("M").reading.state()).messages == 5


async def test_what_retention_took_before_the_copy_is_a_gap(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], max_msgs=4)
        await create(door, name="M", mirror={"name": "O"})
        await publish(door, "o", 2)
        await copier.until(count_is(door, "M", 2))
        await publish(door, "o", 10, start=2)
        await copier.until(count_is(door, "M", 6))
        assert [m.seq for m in await held(door, "M")] == [1, 2, 9, 10, 11, 12]


async def test_removing_a_source_and_adding_another_leaves_the_rest_alone(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        for name in ("A", "B"):
            await create(door, name=name, subjects=[name.lower()])
            await publish(door, name.lower(), 4)
        await create(door, name="S", sources=[{"name": "A"}])
        await copier.until(count_is(door, "S", 4))
        config = {"name": "S", "sources": [{"name": "A"}, {"name": "B"}]}
        assert "error" not in await door.asker.ask("STREAM.UPDATE.S", config)
        await copier.until(count_is(door, "S", 8))
        config = {"name": "S", "sources": [{"name": "B"}]}
        assert "error" not in await door.asker.ask("STREAM.UPDATE.S", config)
        await publish(door, "a", 2)
        await publish(door, "b", 2)
        await copier.until(count_is(door, "S", 10))


async def test_what_the_engine_itself_was_made_to_send_is_no_request_of_a_replicator(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await publish(door, "o", 5)
        plan, commit = plan_subject(door.store_id).encode(), commit_subject(door.store_id).encode()
        # A request whose answer goes there, and a delivery, which carries a reply for its acknowledgement.
        door.asker.connection.publish(b"$JS.API.INFO", b"", plan)
        door.asker.connection.publish(b"$JS.API.INFO", b"", commit)
        door.asker.connection.publish(plan, b"", b"$JS.ACK.O.C.1.1.1.1.0")
        door.asker.connection.publish(commit, b"nonsense", b"$JS.ACK.O.C.1.1.1.1.0")
        await door.asker.connection.flush()
        await create(door, name="M", mirror={"name": "O"})
        await copier.until(count_is(door, "M", 5))


async def test_another_delivery_prefix_of_a_source_takes_effect_at_once(tmp_path: Path) -> None:
    async with copying(tmp_path) as (door, _):
        external = {"api": "$JS.hub.API", "deliver": "wrong"}
        await create(door, name="S", sources=[{"name": "O", "external": external}])
        config = {"name": "S", "sources": [{"name": "O", "external": {**external, "deliver": "right"}}]}
        assert "error" not in await door.asker.ask("STREAM.UPDATE.S", config)
        delivers = [
            upstream.source.external.deliver for upstream in door.upstreams if upstream.source.external
        ]
        assert delivers == ["right"]
