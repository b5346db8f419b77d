"""Schedules of a stream, published by a driven clock, over restarts and power cuts."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headwater.errors import ApiError
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.stream import Retention
from headwater.model.times import SECOND, format_time
from headwater.stream.retention.hold import Hold
from headwater.stream.stream import Stream
from stream.streams import Workshop, config_of, everything, headers, publish

CONFIG = config_of(allow_msg_schedules=True, allow_rollup_hdrs=True, allow_msg_ttl=True)


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    workshop = Workshop(tmp_path)
    yield workshop
    workshop.close()


def once(workshop: Workshop, seconds: int, **more: str) -> bytes:
    """Return the headers of a message to be published so many seconds from now."""
    at = format_time(workshop.clock.now_ns() + seconds * SECOND)
    return headers(Nats_Schedule=f"@at {at}", Nats_Schedule_Target="out", **more)


def every(seconds: int, target: str = "out", **more: str) -> bytes:
    """Return the headers of a message to be published again and again."""
    return headers(Nats_Schedule=f"@every {seconds}s", Nats_Schedule_Target=target, **more)


async def tick(workshop: Workshop, stream: Stream, seconds: int) -> list[Message]:
    """Let time pass, do what the housekeeper does, and return what was published."""
    workshop.clock.advance(seconds * SECOND)
    now_ns = workshop.clock.now_ns()
    due = stream.retention.next_expiry_ns()
    if due is not None and due <= now_ns:
        await stream.retention.expire(now_ns)
    return await everything(stream, filters=["out"])


async def test_a_message_is_published_once_and_its_schedule_goes(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"in", b"hello", once(workshop, 10)))
        assert await tick(workshop, stream, 9) == []
        published = await tick(workshop, stream, 1)
        assert [message.data for message in published] == [b"hello"]
        assert [message.subject for message in await everything(stream)] == [b"out"]
        assert stream.retention.next_expiry_ns() is None
        assert await tick(workshop, stream, 100) == published


async def test_a_message_is_published_again_and_again(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"in", b"tick", every(5)))
        for expected in (1, 2, 3):
            assert len(await tick(workshop, stream, 5)) == expected
        assert await stream.reading.last("in") is not None


async def test_a_schedule_survives_a_restart(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"in", b"tick", every(5)))
        await tick(workshop, stream, 5)
    async with workshop.stream(CONFIG) as stream:
        assert len(await tick(workshop, stream, 4)) == 1
        assert len(await tick(workshop, stream, 1)) == 2
        await stream.checkpoint()
    async with workshop.stream(CONFIG) as stream:
        assert len(await tick(workshop, stream, 4)) == 2
        assert len(await tick(workshop, stream, 1)) == 3


async def test_a_schedule_due_while_no_engine_ran_is_published_once(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"in", b"tick", every(5)))
    workshop.clock.advance(1000 * SECOND)
    async with workshop.stream(CONFIG) as stream:
        assert len(await tick(workshop, stream, 0)) == 1
        assert len(await tick(workshop, stream, 4)) == 1
        assert len(await tick(workshop, stream, 1)) == 2


async def test_a_schedule_ended_or_replaced_before_a_restart_stays_so(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(
            stream,
            (b"ended", b"x", every(5)),
            (b"replaced", b"x", every(5)),
            (b"by", b"x", headers(Nats_Schedule_Next="purge", Nats_Scheduler="ended")),
            (b"replaced", b"plain"),
        )
        assert [m.subject for m in await everything(stream)] == [b"replaced", b"by", b"replaced"]
    async with workshop.stream(CONFIG) as stream:
        assert stream.retention.next_expiry_ns() is None


async def test_the_last_message_of_another_subject_is_published(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        source = once(workshop, 5, Nats_Schedule_Source="from", Nats_Schedule_TTL="1h")
        await publish(stream, (b"from", b"old", headers(Own="x")), (b"in", b"not this", source))
        await publish(stream, (b"from", b"new", headers(Own="y", Nats_Msg_Id="id")))
        await stream.checkpoint()
        (message,) = await tick(workshop, stream, 5)
        assert message.data == b"new"
        assert header_block.parse(message.headers) == [
            (b"Own", b"y"),
            (b"Nats-Scheduler", b"in"),
            (b"Nats-Schedule-Next", b"purge"),
            (b"Nats-TTL", b"1h"),
        ]
        await tick(workshop, stream, 3600)
        assert await tick(workshop, stream, 0) == []


async def test_what_is_published_may_replace_what_was(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"in", b"tick", every(5, Nats_Schedule_Rollup="sub")))
        for _ in range(3):
            assert len(await tick(workshop, stream, 5)) == 1


async def test_a_schedule_that_publishes_too_much_is_given_up_and_delays_no_other(
    workshop: Workshop,
) -> None:
    config = config_of(allow_msg_schedules=True, allow_rollup_hdrs=True, max_msg_size=130)
    async with workshop.stream(config) as stream:
        large = headers(Nats_Schedule="@every 5s", Nats_Schedule_Target="out", Nats_Schedule_Source="large")
        await publish(stream, (b"large", b"x" * 130), (b"in", b"", large), (b"other", b"small", every(5)))
        assert [message.data for message in await tick(workshop, stream, 5)] == [b"small"]
        assert [message.data for message in await tick(workshop, stream, 5)] == [b"small"] * 2


async def test_a_schedule_without_interest_ends_or_continues_as_usual(workshop: Workshop) -> None:
    config = config_of(allow_msg_schedules=True, allow_rollup_hdrs=True, retention=Retention.INTEREST)
    async with workshop.stream(config) as stream:
        stream.retention.holds.add(Hold(("in.>",)))
        await publish(stream, (b"in.1", b"x", once(workshop, 5)), (b"in.2", b"x", every(5)))
        assert await tick(workshop, stream, 5) == []
        assert [message.subject for message in await everything(stream)] == [b"in.2"]
        assert stream.retention.next_expiry_ns() == workshop.clock.now_ns() + 5 * SECOND


async def test_many_schedules_are_due_at_once(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        block = once(workshop, 5)
        await publish(stream, *[(b"in.%d" % number, b"%d" % number, block) for number in range(2500)])
        seen = 0
        workshop.clock.advance(5 * SECOND)
        while (due := stream.retention.next_expiry_ns()) is not None and due <= workshop.clock.now_ns():
            published = await tick(workshop, stream, 0)
            assert len(published) > seen
            seen = len(published)
        assert [message.data for message in published] == [b"%d" % number for number in range(2500)]


async def test_a_message_for_which_the_account_has_no_room_is_published_when_there_is(
    workshop: Workshop,
) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"plan", b"late", once(workshop, 5)))
        room = stream._acceptor._room
        room._free_bytes = lambda storage: 10
        with pytest.raises(ApiError, match="resource limits exceeded for account"):
            await tick(workshop, stream, 6)
        assert await everything(stream, filters=["out"]) == []
        room._free_bytes = lambda storage: 10_000
        assert [message.data for message in await tick(workshop, stream, 6)] == [b"late"]
        assert stream.retention.next_expiry_ns() is None
