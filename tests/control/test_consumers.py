"""Consumers are declared, opened with their stream, changed and removed permanently."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Awaitable, Coroutine
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from control.served_consumers import create, opened, pulled
from doors import Door
from headwater import bounded
from headwater.control.catalog_rows import ConsumerRow
from headwater.delivery.consumers import StreamConsumers
from headwater.delivery.outlet import Outlet
from headwater.errors import ApiError, DiskError
from headwater.model.consumer import AckPolicy, ConsumerConfig, DeliverPolicy, PriorityPolicy
from headwater.model.stream import Retention, StreamConfig
from headwater.threads import on_thread
from waits import until

SECOND = 1_000_000_000


async def test_a_declared_consumer_is_there_again_with_its_state(tmp_path: Path) -> None:
    async with opened(tmp_path, "s.a", "s.b") as (door, stream):
        consumer = await create(door, stream, filter_subject="s.a")
        (message,) = await pulled(door, 1)
        await door.asker.raw(message[1].decode(), b"+ACK")
        created_ns, state = consumer.created_ns, consumer.state
    async with opened(tmp_path) as (door, stream):
        again = door.consumers.get(stream, "C")
        assert again.config == consumer.config
        assert again.created_ns == created_ns
        assert again.state == state
        assert (await again.info()).num_pending == 0


async def test_a_consumer_without_a_record_begins_where_it_was_declared_to(tmp_path: Path) -> None:
    async with opened(tmp_path, *["s.a"] * 5) as (door, stream):
        config = ConsumerConfig(
            name="C", durable_name="C", deliver_policy=DeliverPolicy.BY_START_SEQUENCE, opt_start_seq=4
        )
        await create(door, stream, "D", deliver_policy=config.deliver_policy, opt_start_seq=4)
        row = door.consumers._catalog.consumers("$G", "S")[0]
        body = row.config.replace('"D"', '"C"')
        # What a crash leaves between the declaration and the first record.
        door.consumers._catalog.declare_consumer(ConsumerRow("$G", "S", "C", body, 1))
    async with opened(tmp_path) as (door, stream):
        assert door.consumers.get(stream, "C").state.next_seq == 4


async def test_a_row_that_cannot_be_read_leaves_out_one_consumer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as (door, stream):
        await create(door, stream)
        door.consumers._catalog.declare_consumer(ConsumerRow("$G", "S", "BAD", '{"wings": 2}', 1))
    with caplog.at_level(logging.ERROR):
        async with opened(tmp_path) as (door, stream):
            assert [consumer.name for consumer in door.consumers.of(stream)] == ["C"]
    assert "BAD" in caplog.text


async def test_a_consumer_whose_row_cannot_be_read_keeps_its_messages(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=Retention.INTEREST) as (door, stream):
        await create(door, stream)
        await door.asker.publish("s.a", b"1")
        door.consumers._catalog.declare_consumer(ConsumerRow("$G", "S", "C", '{"wings": 2}', 1))
    async with opened(tmp_path, retention=Retention.INTEREST) as (door, stream):
        await create(door, stream, "D")
        await door.asker.publish("s.a", b"2")
        for message in await pulled(door, 2, "D"):
            await door.asker.raw(message[1].decode(), b"+ACK")
        await stream.publishing.settled()
        assert (await stream.reading.state()).messages == 2, "nobody knows what C has settled"
        await create(door, stream)
        assert [message[3] for message in await pulled(door, 2)] == [b"1", b"2"]


async def test_two_requests_at_once_make_one_consumer(tmp_path: Path) -> None:
    async with opened(tmp_path) as (door, stream):
        made = await asyncio.gather(*(create(door, stream) for _ in range(5)))
        assert len({id(consumer) for consumer in made}) == 1
        assert door.consumers.count(stream) == 1


async def test_a_change_that_cannot_be_written_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (door, stream):
        consumer = await create(door, stream)
        before = consumer.config

        def fail(row: ConsumerRow, created_ns: int) -> None:
            raise OSError("no space left")

        monkeypatch.setattr(door.consumers._catalog, "declare_consumer", fail)
        with pytest.raises(OSError, match="no space"):
            await create(door, stream, description="new")
        assert consumer.config == before


async def test_a_filter_that_cannot_be_written_costs_the_old_one_no_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, retention=Retention.INTEREST) as (door, stream):
        await create(door, stream, filter_subject="s.a")
        is_writing, goes_on = threading.Event(), threading.Event()

        def fail(row: ConsumerRow, created_ns: int) -> None:
            is_writing.set()
            assert goes_on.wait(60)
            raise OSError("no space left")

        monkeypatch.setattr(door.consumers._catalog, "declare_consumer", fail)
        changing = asyncio.ensure_future(create(door, stream, filter_subject="s.b"))
        await asyncio.to_thread(is_writing.wait, 60)
        await door.asker.publish("s.a", b"wanted")
        goes_on.set()
        with pytest.raises(OSError, match="no space"):
            await changing
        assert [message[3] for message in await pulled(door, 1)] == [b"wanted"]


async def test_a_deleted_consumer_stays_away(tmp_path: Path) -> None:
    async with opened(tmp_path) as (door, stream):
        await create(door, stream)
        await door.consumers.delete(stream, "C")
        with pytest.raises(ApiError, match="consumer not found"):
            await door.consumers.delete(stream, "C")
    async with opened(tmp_path) as (door, stream):
        assert door.consumers.count(stream) == 0
        assert stream.consumers.recorded("C") == []


async def test_consumers_go_with_their_stream(tmp_path: Path) -> None:
    async with opened(tmp_path) as (door, stream):
        await create(door, stream)
        await door.domain.delete_stream("S")
        assert door.consumers.total == 0
        await door.domain.create_stream(StreamConfig(name="S", subjects=("s.>",)))
        assert door.consumers.count(door.domain.stream("S")) == 0


async def test_an_unused_ephemeral_is_deleted(tmp_path: Path) -> None:
    async with opened(tmp_path) as (door, stream):
        await create(door, stream, inactive_threshold=1)
        await until(lambda: door.consumers.count(stream) == 0)


async def test_a_pause_survives_and_ends(tmp_path: Path) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        await create(door, stream)
        until_ns = door.consumers._clock.now_ns() + 3600 * SECOND
        consumer = await door.consumers.pause(stream, "C", until_ns)
        assert consumer.is_paused
    async with opened(tmp_path) as (door, stream):
        consumer = door.consumers.get(stream, "C")
        assert consumer.is_paused
        await door.consumers.pause(stream, "C", None)
        assert not consumer.is_paused
        assert len(await pulled(door, 1)) == 1


async def test_a_narrower_filter_releases_unneeded_messages(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=Retention.INTEREST) as (door, stream):
        await create(door, stream)
        for subject in ("s.a", "s.b"):
            await door.asker.publish(subject)
        await create(door, stream, filter_subject="s.b")
        assert (await stream.reading.state()).messages == 1


async def test_everybody_is_served_again_after_the_server_came_back(tmp_path: Path) -> None:
    async with opened(tmp_path) as (door, stream):
        consumer = await create(door, stream, deliver_subject="to")
        box = door.asker.listen("to")
        await until(consumer.is_bound)
        await door.server.kill()
        await until(lambda: not consumer.is_bound())
        await door.server.start()
        await until(consumer.is_bound)
        await until(lambda: door.connection.connected and door.asker.connection.connected)
        await door.connection.flush()
        await door.asker.publish("s.a", b"after")
        assert (await box.next())[3] == b"after"


async def test_a_message_without_a_receiver_is_redelivered(tmp_path: Path) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        consumer = await create(door, stream, deliver_subject="to", ack_wait=SECOND // 4)
        box = door.asker.listen("to")
        first = await box.next()
        await door.server.kill()
        await until(lambda: not consumer.is_bound())
        await door.server.start()
        again = await box.next()
        assert again[3] == first[3]
        assert again[1].split(b".")[4] == b"2"


async def test_a_message_that_its_pin_makes_too_large_stays_and_delays_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path) as (door, stream):
        events = door.asker.listen("$JS.EVENT.ADVISORY.CONSUMER.UNDELIVERABLE.>")
        for size in (1, door.connection.max_payload, 2):
            await door.asker.publish("s.a", b"x" * size)
        pinned = await create(
            door, stream, priority_policy=PriorityPolicy.PINNED_CLIENT, priority_groups=("g",)
        )
        await create(door, stream, "D")
        box = door.asker.listen("box")
        await door.asker.connection.flush()
        pull = b'{"batch": 3, "group": "g", "expires": 30000000000}'
        door.asker.connection.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", pull, b"box")
        assert [len((await box.next())[3]) for _ in range(2)] == [1, 2]
        event = json.loads((await events.next())[3])
        assert (event["stream_seq"], event["size"]) == (2, 1 << 20)
        assert pinned.state.num_ack_pending == 3
        assert pinned.num_waiting() == 1
        assert [len(message[3]) for message in await pulled(door, 3, "D")] == [1, 1 << 20, 2]
        assert "cannot deliver message 2 of stream S to consumer C" in caplog.text
        assert "lost the connection" not in caplog.text


async def test_a_large_message_that_needs_no_ack_stays_in_its_stream(tmp_path: Path) -> None:
    async with opened(tmp_path, retention=Retention.INTEREST) as (door, stream):
        await create(
            door,
            stream,
            ack_policy=AckPolicy.NONE,
            priority_policy=PriorityPolicy.PINNED_CLIENT,
            priority_groups=("g",),
        )
        for size in (1, door.connection.max_payload, 2):
            await door.asker.publish("s.a", b"x" * size)
        box = door.asker.listen("box")
        await door.asker.connection.flush()
        pull = b'{"batch": 3, "group": "g", "expires": 30000000000}'
        door.asker.connection.publish(b"$JS.API.CONSUMER.MSG.NEXT.S.C", pull, b"box")
        assert [len((await box.next())[3]) for _ in range(2)] == [1, 2]
        await until(lambda: stream.reading.live_between(1, 3) == 1)
        assert stream.reading.is_live(2)


async def test_no_consumer_is_made_while_the_stream_cannot_forget_an_earlier_one(tmp_path: Path) -> None:
    async with opened(tmp_path, "s.a", "s.b") as (door, stream):
        await create(door, stream)
        for message in await pulled(door, 2):
            await door.asker.raw(message[1].decode(), b"+ACK")
        stream._committer.failure = DiskError(tmp_path, "write", ENOSPC)
        await door.consumers.delete(stream, "C")
        with pytest.raises(ApiError, match="full"):
            await create(door, stream)
        stream._committer.failure = None
        consumer = await create(door, stream)
        assert consumer.state.next_seq == 1
    async with opened(tmp_path) as (door, stream):
        assert door.consumers.get(stream, "C").state.next_seq == 1


async def test_a_change_of_interest_is_checked_only_by_streams_with_push_consumers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        for number in range(5):
            await door.domain.create_stream(StreamConfig(name=f"IDLE{number}", subjects=(f"idle.{number}",)))
        asked: list[str] = []
        look = StreamConsumers.on_interest

        def counting(consumers: StreamConsumers) -> None:
            asked.append(consumers.stream.name)
            look(consumers)

        monkeypatch.setattr(StreamConsumers, "on_interest", counting)
        door.consumers.on_interest()
        assert asked == []
        await create(door, stream, "PUSH", deliver_subject="to")
        await create(door, stream, "PULL")
        asked.clear()
        door.consumers.on_interest()
        assert asked == ["S"]
        await door.consumers.delete(stream, "PUSH")
        asked.clear()
        door.consumers.on_interest()
        assert asked == []
        # Whether deliveries can be made at all concerns every stream.
        with monkeypatch.context() as patch:
            patch.setattr(Outlet, "is_open", property(lambda outlet: False))
            asked.clear()
            door.consumers.on_interest()
            assert len(asked) == 6
            await door.domain.create_stream(StreamConfig(name="LATE", subjects=("late",)))
        asked.clear()
        door.consumers.on_interest()
        assert len(asked) == 7
        asked.clear()
        door.consumers.on_interest()
        assert asked == []


async def test_a_stream_opened_while_nothing_can_be_delivered_looks_again_when_it_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as (door, _):
        asked: list[str] = []
        monkeypatch.setattr(StreamConsumers, "on_interest", lambda self: asked.append(self.stream.name))
        with monkeypatch.context() as patch:
            patch.setattr(Outlet, "is_open", property(lambda outlet: False))
            await door.domain.create_stream(StreamConfig(name="LATE", subjects=("late",)))
        asked.clear()
        door.consumers.on_interest()
        assert sorted(asked) == ["LATE", "S"]


async def test_a_stream_that_hangs_does_not_keep_consumers_from_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(consumers: StreamConsumers) -> None:
        await asyncio.Event().wait()

    async with opened(tmp_path, "s.a") as (door, stream):
        await create(door, stream)
        with monkeypatch.context() as patch:
            patch.setattr(bounded, "CLOSE_WITHIN_S", 0.05)
            patch.setattr(StreamConsumers, "close", never)
            await door.consumers.close()
        assert f"recording the consumers of {stream.name!r} did not end in time" in caplog.text


async def test_a_consumer_deleted_twice_at_once_is_deleted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        consumer = await create(door, stream)
        await create(door, stream, "OTHER")
        catalog, calls, may_go = door.consumers._catalog, list[str](), threading.Event()
        forget = catalog.forget_consumer

        def slow_forget(account: str, stream: str, name: str, created_ns: int) -> None:
            calls.append(name)
            may_go.wait(60)
            forget(account, stream, name, created_ns)

        monkeypatch.setattr(catalog, "forget_consumer", slow_forget)
        deletions = [asyncio.create_task(door.consumers.delete(stream, "C")) for _ in range(2)]
        await until(lambda: bool(calls))
        # As its inactivity would, at the same time.
        door.consumers._abandoned(consumer)
        await asyncio.sleep(0)
        may_go.set()
        await asyncio.gather(*deletions)
        assert calls == ["C"]
        assert [each.name for each in door.consumers.of(stream).listed] == ["OTHER"]
        assert door.consumers.count(stream) == 1
        # Its name is free again, and the new consumer stays.
        await create(door, stream)
        await asyncio.sleep(0)
        assert door.consumers.count(stream) == 2


async def test_a_stream_closed_while_its_consumer_is_deleted_ends_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        await create(door, stream)
        catalog, began, may_go = door.consumers._catalog, threading.Event(), threading.Event()
        forget = catalog.forget_consumer

        def slow_forget(account: str, stream: str, name: str, created_ns: int) -> None:
            began.set()
            may_go.wait(60)
            forget(account, stream, name, created_ns)

        monkeypatch.setattr(catalog, "forget_consumer", slow_forget)
        deletion = asyncio.create_task(door.consumers.delete(stream, "C"))
        await until(began.is_set)
        closing = asyncio.create_task(door.domain.delete_stream("S"))
        await until(lambda: not door.domain.names() or closing.done())
        may_go.set()
        await asyncio.gather(deletion, closing)
        assert door.consumers.total == 0
    assert not [record for record in caplog.records if record.exc_info]


class Held:
    """A step of the catalog that runs on its thread and waits there, before or after it was done."""

    def __init__(self, patch: pytest.MonkeyPatch, door: Door, step: str, *, after: bool) -> None:
        self.began, self.may_end = threading.Event(), threading.Event()
        catalog = door.consumers._catalog
        real = getattr(catalog, step)

        def held(*args: Any) -> None:
            if after:
                real(*args)
            first = not self.began.is_set()
            self.began.set()
            if first:
                assert self.may_end.wait(60)
            if not after:
                real(*args)

        patch.setattr(catalog, step, held)


async def refusal(work: Awaitable[Any]) -> str:
    """Return the name of the error that work ends with, or nothing."""
    try:
        await work
    except ApiError as error:
        return error.name
    return ""


@pytest.mark.parametrize("change", ["pause", "reset"])
async def test_a_change_waits_for_the_deletion_of_its_consumer_and_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        consumer = await create(door, stream)
        held = Held(monkeypatch, door, "forget_consumer", after=True)
        deletion = asyncio.create_task(door.consumers.delete(stream, "C"))
        await until(held.began.is_set)
        work: Coroutine[None, None, object] = (
            door.consumers.pause(stream, "C", time.time_ns() + 3600 * SECOND)
            if change == "pause"
            else door.consumers.reset(consumer, 0)
        )
        changing = asyncio.create_task(refusal(work))
        # A thread of the catalog would have written the row by the time that this has been read.
        for _ in range(3):
            assert await on_thread(door.consumers._catalog.consumers, "$G", "S") == []
        held.may_end.set()
        await deletion
        assert await changing == "consumer_not_found"
        assert door.consumers._catalog.consumers("$G", "S") == []
    async with opened(tmp_path) as (door, stream):
        assert door.consumers.count(stream) == 0


async def test_a_consumer_asked_for_during_its_deletion_is_created_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        old = await create(door, stream)
        held = Held(monkeypatch, door, "forget_consumer", after=True)
        deletion = asyncio.create_task(door.consumers.delete(stream, "C"))
        await until(held.began.is_set)
        creation = asyncio.create_task(create(door, stream, description="new"))
        await on_thread(door.consumers._catalog.consumers, "$G", "S")
        held.may_end.set()
        await deletion
        new = await creation
        assert new is not old
        assert door.consumers.get(stream, "C") is new
    async with opened(tmp_path) as (door, stream):
        assert door.consumers.get(stream, "C").config.description == "new"


@pytest.mark.parametrize("change", ["pause", "create"])
async def test_a_late_change_does_not_reach_a_later_stream_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        await create(door, stream)
        held = Held(monkeypatch, door, "declare_consumer", after=False)
        work: Coroutine[None, None, object] = (
            door.consumers.pause(stream, "C", time.time_ns() + 3600 * SECOND)
            if change == "pause"
            else create(door, stream, "D")
        )
        changing = asyncio.create_task(refusal(work))
        await until(held.began.is_set)
        await door.domain.delete_stream("S")
        await door.domain.create_stream(StreamConfig(name="S", subjects=("s.>",)))
        held.may_end.set()
        assert await changing == "stream_not_found"
        assert door.consumers.total == 0
    async with opened(tmp_path) as (door, stream):
        assert door.consumers.count(stream) == 0


async def test_a_late_deletion_leaves_the_consumer_of_a_later_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, "s.a") as (door, stream):
        await create(door, stream)
        held = Held(monkeypatch, door, "forget_consumer", after=False)
        deletion = asyncio.create_task(door.consumers.delete(stream, "C"))
        await until(held.began.is_set)
        await door.domain.delete_stream("S")
        stream, _ = await door.domain.create_stream(StreamConfig(name="S", subjects=("s.>",)))
        await create(door, stream)
        held.may_end.set()
        await deletion
        assert door.consumers.count(stream) == 1
    async with opened(tmp_path) as (door, stream):
        assert door.consumers.count(stream) == 1
