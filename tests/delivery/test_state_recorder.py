"""Changes of consumers are recorded soon, deletions too, and nothing while the stream cannot store."""

from __future__ import annotations

import pytest

from delivery.deliveries import confirmed, delivered, desk, left
from headwater.delivery.needs import MessageNeeds
from headwater.delivery.state import ConsumerState
from headwater.errors import Error
from headwater.model.stream import Retention
from headwater.stream.publishing.publishing import StreamPublishing
from stream.streams import Workshop
from waits import until


async def test_what_is_delivered_is_recorded_before_long(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        await running.publish(b"a")
        consumer = running.add()
        await delivered(running, consumer, 1)
        running.consumers.recorder.tick(0)
        await running.stream.publishing.settled()
        recorded = consumer.state.snapshot()
    async with workshop.stream() as reopened:
        restored = ConsumerState.restore(consumer.config, reopened.consumers.recorded("C"))
        assert restored == ConsumerState.restore(consumer.config, [recorded])


async def test_a_consumer_without_a_place_on_disk_is_not_recorded(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        running.add(mem_storage=True)
        running.consumers.recorder.tick(0)
        assert running.consumers.dump() == {}
    async with workshop.stream() as reopened:
        assert reopened.consumers.recorded("C") == []


async def test_a_removed_consumer_is_forgotten_on_disk_too(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        consumer = running.add()
        running.consumers.recorder.tick(0)
        await running.consumers.remove(consumer)
        await running.stream.publishing.settled()
    async with workshop.stream() as reopened:
        assert reopened.consumers.recorded("C") == []


async def test_nothing_is_recorded_or_confirmed_while_the_stream_cannot_store(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(workshop) as running:
        await running.publish(b"a")
        consumer = running.add()
        (message,) = await delivered(running, consumer, 1)
        with monkeypatch.context() as patched:
            patched.setattr(StreamPublishing, "is_storing", False)
            running.ack(message, reply=b"ack1")
            await running.rest()
            assert confirmed(workshop) == []
        running.ack(message, reply=b"ack2")
        await running.stream.publishing.settled()
        assert confirmed(workshop) == [b"ack2"]
    async with workshop.stream() as reopened:
        recorded = reopened.consumers.recorded("C")
        assert ConsumerState.restore(consumer.config, recorded).ack_floor.stream_seq == 1


async def test_a_settled_message_that_cannot_be_read_is_checked_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        await running.publish(b"a")
        (message,) = await delivered(running, running.add(), 1)

        def unreadable(self: MessageNeeds, seq: int) -> bool:
            raise Error("damaged")

        with monkeypatch.context() as patched:
            patched.setattr(MessageNeeds, "needs_settled", unreadable)
            running.ack(message)
            assert await left(running) == [1]

        async def is_removed() -> bool:
            return await left(running) == []

        await until(is_removed, "it is checked again")
