"""A message stays for as long as a consumer or an upstream needs it."""

from __future__ import annotations

from delivery.deliveries import delivered, desk, left
from headwater.model.consumer import AckPolicy
from headwater.model.stream import Retention
from headwater.stream.retention.hold import Hold
from stream.streams import Workshop


async def test_a_workqueue_releases_what_was_acknowledged(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        await running.publish(b"a", b"b", b"a")
        one, two = running.add("ONE", filter_subject="a"), running.add("TWO", filter_subject="b")
        first, third = await delivered(running, one, 2)
        (second,) = await delivered(running, two, 1)
        running.ack(third)
        assert await left(running) == [1, 2]
        running.ack(second, b"+TERM")
        assert await left(running) == [1]
        running.ack(first, b"-NAK")
        assert await left(running) == [1]


async def test_an_ack_of_all_messages_releases_only_delivered_ones(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        await running.publish(b"a", b"b", b"a", b"b")
        one = running.add("ONE", filter_subject="a", ack_policy=AckPolicy.ALL)
        _, last = await delivered(running, one, 2)
        running.ack(last)
        assert await left(running) == [2, 4], "nobody has seen the others"


async def test_interest_keeps_what_another_still_needs(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.INTEREST) as running:
        one, two = running.add("ONE"), running.add("TWO", filter_subject="b")
        await running.publish(b"a", b"b")
        for message in await delivered(running, one, 2):
            running.ack(message)
        assert await left(running) == [2]
        (second,) = await delivered(running, two, 1)
        running.ack(second)
        assert await left(running) == []


async def test_without_acks_interest_ends_at_delivery(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.INTEREST) as running:
        one = running.add("ONE", ack_policy=AckPolicy.NONE)
        await running.publish(b"a", b"b")
        await delivered(running, one, 1)
        assert await left(running) == [2]


async def test_a_consumer_that_goes_takes_along_what_only_it_needed(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.INTEREST) as running:
        one, two = running.add("ONE", filter_subject="a"), running.add("TWO")
        await running.publish(b"a", b"b")
        await running.consumers.remove(two)
        assert await left(running) == [1]
        await running.publish(b"b")
        assert await left(running) == [1], "nobody is interested any more"
        await running.consumers.remove(one)
        assert await left(running) == []


async def test_a_queue_keeps_an_acked_message_that_an_upstream_needs(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        consumer = running.add()
        running.stream.retention.holds.add(hold := Hold(floor=1))
        await running.publish(b"a", b"b", b"c")
        for delivery in await delivered(running, consumer, 2):
            running.ack(delivery)
        assert await left(running) == [2, 3]
        hold.floor = 3
        await running.stream.retention.drop_unneeded(1, 3)
        assert await left(running) == [3]


async def test_everything_leaves_at_once_when_every_upstream_has_it(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        running.stream.retention.holds.add(hold := Hold())
        await running.publish(b"a", b"b")
        hold.floor = 2
        await running.stream.retention.drop_unneeded(1, 2)
        assert await left(running) == []
        await running.publish(b"a")
        await running.stream.retention.drop_unneeded(1, 2)
        assert await left(running) == [3]


async def test_a_consumer_that_goes_lets_a_queue_go_of_what_upstreams_have(workshop: Workshop) -> None:
    async with desk(workshop, retention=Retention.WORKQUEUE) as running:
        consumer = running.add()
        running.stream.retention.holds.add(Hold(("a",), floor=3))
        await running.publish(b"a", b"b", b"a", b"a")
        await running.stream.retention.drop_unneeded(1, 3)
        assert await left(running) == [1, 2, 3, 4]
        await running.consumers.remove(consumer)
        assert await left(running) == [2, 4]
