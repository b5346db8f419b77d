"""Acks of every kind settle what they should, and are confirmed once that is durable."""

from __future__ import annotations

from delivery.deliveries import Desk, confirmed, delivered, desk
from headwater.delivery.state import ConsumerState
from headwater.model.consumer import AckPolicy
from stream.streams import Workshop


async def test_an_ack_is_confirmed_once_its_record_is_durable(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        await running.publish(b"a", b"b")
        consumer = running.add()
        first, second = await delivered(running, consumer, 2)
        running.ack(first, reply=b"ack1")
        running.ack(second)
        assert confirmed(workshop) == []
        await running.stream.publishing.settled()
        assert confirmed(workshop) == [b"ack1"]
    async with workshop.stream() as reopened:
        state = ConsumerState.restore(consumer.config, reopened.consumers.recorded("C"))
        assert state == consumer.state
        assert state.ack_floor.stream_seq == 2


async def test_what_is_confirmed_and_what_is_not(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        await running.publish(b"a", b"b")
        explicit, none = running.add(), running.add("N", ack_policy=AckPolicy.NONE)
        (first,) = await delivered(running, explicit, 1)
        (other,) = await delivered(running, none, 1)
        for number, body in enumerate((b"+WPI", b"-NAK", b"+ACK", b"+ACK", b"+TERM", b"?")):
            running.ack(first, body, b"ack%d" % number)
        running.ack(other, b"+ACK", b"ack.none")
        undelivered = first._replace(reply=b"$JS.ACK.S.C.1.2.2.0.0")
        running.ack(undelivered, b"+ACK", b"ack.beyond")
        unknown = first._replace(reply=b"$JS.ACK.S.X.1.1.1.0.0")
        running.ack(unknown, b"+ACK", b"ack.unknown")
        running.ack(first._replace(reply=b"$JS.ACK.S"), b"+ACK", b"ack.nonsense")
        await running.stream.publishing.settled()
        assert confirmed(workshop) == [b"ack%d" % number for number in range(6)]


async def test_every_kind_of_ack_does_its_own(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 4)
    consumer = desk.add()
    acked, naked, worked, termed = await delivered(desk, consumer, 4)
    desk.ack(acked)
    desk.ack(naked, b"-NAK")
    desk.ack(worked, b"+WPI")
    desk.ack(termed, b"+TERM not wanted")
    assert consumer.state.num_ack_pending == 2
    assert consumer.state.num_queued == 1
    events = [(subject.split(".")[4], advisory["stream_seq"]) for subject, advisory in desk.events()]
    assert events == [("MSG_NAKED", 2), ("MSG_TERMINATED", 4)]


async def test_a_nak_of_a_message_that_is_not_pending_is_not_reported(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add()
    (first,) = await delivered(desk, consumer, 1)
    desk.ack(first)
    desk.ack(first, b"-NAK")
    assert desk.events() == []
    assert consumer.state.num_queued == 0


async def test_an_ack_and_the_next_request_in_one(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add()
    (first,) = await delivered(desk, consumer, 1)
    desk.outlet.listeners.add((b"next", b""))
    desk.ack(first, b"+NXT", b"next")
    (second,) = await desk.sent(1)
    assert (second.to, second.tokens[1]) == (b"next", 2)
    assert consumer.state.ack_floor.stream_seq == 1


async def test_a_term_stands_for_all_where_acks_do(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 3)
    consumer = desk.add(ack_policy=AckPolicy.ALL)
    *_, last = await delivered(desk, consumer, 3)
    desk.ack(last, b"+TERM")
    assert consumer.state.num_ack_pending == 0


async def test_acks_in_both_forms_are_taken(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add()
    (first,) = await delivered(desk, consumer, 1)
    older, newer = consumer.acks.keys
    desk.ack(first._replace(reply=first.reply.replace(older, newer.replace(b"._.", b".other."), 1)))
    assert consumer.state.num_ack_pending == 1
    desk.ack(first._replace(reply=first.reply.replace(older, newer, 1)))
    assert consumer.state.num_ack_pending == 0


async def test_an_ack_of_what_was_not_delivered_settles_nothing(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 3)
    consumer = desk.add(ack_policy=AckPolicy.ALL)
    (first,) = await delivered(desk, consumer, 1)
    desk.ack(first._replace(reply=b"$JS.ACK.S.C.1.3.3.0.0"), b"+ACK", b"ack")
    assert consumer.state.num_ack_pending == 1
    assert consumer.state.ack_floor.stream_seq == 0
