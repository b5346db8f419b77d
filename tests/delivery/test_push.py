"""A push consumer: delivers while there is a subscriber, sends heartbeats, and waits for answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from delivery.deliveries import SECOND, Delivery, Desk
from headwater.model.consumer import AckPolicy
from headwater.model.headers import build

BIG = b"x" * 600_000


def is_request(delivery: Delivery) -> bool:
    """Return whether it is a flow-control request."""
    return delivery.headers.startswith(b"NATS/1.0 100 FlowControl Request")


async def store_big(desk: Desk, count: int) -> None:
    """Store large messages, one after the other."""
    for _ in range(count):
        desk.stream.publishing.offer([(b"a", b"", b"", BIG)])
        await desk.stream.publishing.settled()


async def test_messages_are_sent_as_long_as_there_is_a_subscriber(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(deliver_subject="to")
    await desk.rest()
    assert desk.outlet.take() == []
    desk.listen(b"to")
    (first,) = await desk.sent(1)
    assert (first.to, first.subject) == (b"to", b"a")
    assert consumer.is_bound()
    desk.leave(b"to")
    await desk.publish(b"b")
    await desk.rest()
    assert desk.outlet.take() == []
    desk.listen(b"to")
    assert (await desk.sent(1))[0].subject == b"b"


async def test_only_members_of_its_group_count_as_listeners(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(deliver_subject="to", deliver_group="g")
    desk.listen(b"to")
    await desk.rest()
    assert not consumer.is_bound()
    desk.listen(b"to", b"g")
    await desk.sent(1)


async def test_a_heartbeat_comes_when_nothing_else_did(desk: Desk) -> None:
    consumer = desk.add(deliver_subject="to", idle_heartbeat=SECOND, filter_subject="a")
    desk.listen(b"to")
    await desk.publish(b"a", b"b")
    await desk.sent(1)
    desk.clock.advance(SECOND // 2)
    assert consumer.tick(desk.clock.now_ns()) == desk.clock.now_ns() + SECOND // 2
    desk.clock.advance(SECOND)
    consumer.tick(desk.clock.now_ns())
    (beat,) = await desk.sent(1)
    assert beat.headers == build(
        [(b"Nats-Last-Consumer", b"1"), (b"Nats-Last-Stream", b"2")], code=100, description=b"Idle Heartbeat"
    )
    desk.leave(b"to")
    desk.clock.advance(5 * SECOND)
    consumer.tick(desk.clock.now_ns())
    await desk.sent(0)


async def test_what_is_under_way_is_bounded_until_it_is_answered(desk: Desk) -> None:
    await store_big(desk, 8)
    consumer = desk.add(
        deliver_subject="to", flow_control=True, idle_heartbeat=SECOND, ack_policy=AckPolicy.NONE
    )
    desk.listen(b"to")
    await desk.rest()
    sent = desk.outlet.take()
    (request,) = [delivery for delivery in sent if is_request(delivery)]
    assert request.reply.startswith(b"$JS.FC.S.C.")
    assert consumer.state.delivered.stream_seq < 8
    desk.clock.advance(SECOND)
    consumer.tick(desk.clock.now_ns())
    (beat,) = await desk.sent(1)
    assert b"Nats-Consumer-Stalled: " + request.reply in beat.headers
    desk.consumers.acks.flow_answered("C", request.reply + b"x", b"")
    await desk.sent(0)
    desk.consumers.acks.flow_answered("C", request.reply, b"")
    await desk.rest()
    messages = [delivery for delivery in sent + desk.outlet.take() if delivery.data]
    assert [delivery.tokens[1] for delivery in messages] == list(range(1, 9))


async def test_answers_settle_where_flow_control_acknowledges(desk: Desk) -> None:
    consumer = desk.add(
        deliver_subject="to",
        flow_control=True,
        idle_heartbeat=SECOND,
        ack_policy=AckPolicy.FLOW_CONTROL,
        ack_wait=0,
        max_ack_pending=2,
    )
    desk.listen(b"to")
    await desk.publish(b"a", b"b", b"c")
    sent = await desk.sent(3)
    assert [is_request(delivery) for delivery in sent] == [False, False, True]
    stored = build([(b"Nats-Last-Consumer", b"2"), (b"Nats-Last-Stream", b"2")])
    desk.consumers.acks.flow_answered("C", sent[2].reply, stored)
    await desk.rest()
    assert consumer.state.ack_floor.stream_seq == 2
    assert [delivery.data for delivery in desk.outlet.take() if delivery.data] == [b"c"]


@pytest.mark.parametrize("number", [b"9" * 5000, b"9" * 20, b"3", b"-1", b""])
async def test_an_answer_with_a_made_up_number_settles_nothing(desk: Desk, number: bytes) -> None:
    consumer = desk.add(
        deliver_subject="to",
        flow_control=True,
        idle_heartbeat=SECOND,
        ack_policy=AckPolicy.FLOW_CONTROL,
        ack_wait=0,
        max_ack_pending=2,
    )
    desk.listen(b"to")
    await desk.publish(b"a", b"b", b"c")
    sent = await desk.sent(3)
    stored = build([(b"Nats-Last-Consumer", number), (b"Nats-Last-Stream", number)])
    desk.consumers.acks.flow_answered("C", sent[2].reply, stored)
    assert consumer.state.ack_floor.stream_seq == 0


async def test_answers_on_other_subjects_settle_nothing(desk: Desk) -> None:
    await store_big(desk, 4)
    consumer = desk.add(deliver_subject="to", flow_control=True, idle_heartbeat=SECOND)
    desk.listen(b"to")
    await desk.rest()
    request = next(delivery for delivery in desk.outlet.take() if is_request(delivery))
    stored = build([(b"Nats-Last-Consumer", b"1"), (b"Nats-Last-Stream", b"1")])
    desk.consumers.acks.flow_answered("C", request.reply, stored)
    assert consumer.state.ack_floor.stream_seq == 0


async def test_a_consumer_without_a_listener_stops_delivering(desk: Desk) -> None:
    gone: list[Any] = []
    desk.consumers.on_abandoned = gone.append
    consumer = desk.add(deliver_subject="to", inactive_threshold=10 * SECOND)
    desk.listen(b"to")
    desk.clock.advance(60 * SECOND)
    consumer.tick(desk.clock.now_ns())
    assert gone == []
    desk.leave(b"to")
    desk.clock.advance(5 * SECOND)
    consumer.tick(desk.clock.now_ns())
    assert gone == []
    desk.clock.advance(6 * SECOND)
    consumer.tick(desk.clock.now_ns())
    assert gone == [consumer]


async def test_what_went_to_another_subject_goes_again_to_the_new_one(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(deliver_subject="to.one")
    desk.listen(b"to.one")
    await desk.sent(1)
    desk.leave(b"to.one")
    consumer.reconfigure(msgspec.structs.replace(consumer.config, deliver_subject="to.two"))
    desk.listen(b"to.two")
    (again,) = await desk.sent(1)
    assert (again.to, again.tokens[:3]) == (b"to.two", [2, 1, 2])


async def test_a_rate_is_kept(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    desk.add(deliver_subject="to", rate_limit_bps=8, ack_policy=AckPolicy.NONE)
    desk.listen(b"to")
    assert [delivery.data for delivery in await desk.sent(1)] == [b"a"]
    desk.clock.advance(3600 * SECOND)
    assert [delivery.data for delivery in await desk.sent(1)] == [b"b"]


async def test_a_pull_request_is_refused(desk: Desk) -> None:
    consumer = desk.add(deliver_subject="to")
    consumer.pull(b"", b"box")
    (answer,) = await desk.sent(1)
    assert answer.headers == b"NATS/1.0 409 Consumer is push based\r\n\r\n"


async def test_interest_that_comes_while_a_consumer_is_made_is_not_lost(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.make(deliver_subject="to")
    desk.listen(b"to")
    desk.consumers.add(consumer)
    assert consumer.is_bound()
    assert (await desk.sent(1))[0].subject == b"a"


async def test_interest_that_goes_while_a_consumer_is_made_is_not_kept(desk: Desk) -> None:
    desk.listen(b"to")
    consumer = desk.make(deliver_subject="to")
    desk.leave(b"to")
    desk.consumers.add(consumer)
    await desk.publish(b"a")
    await desk.rest()
    assert not consumer.is_bound()
    assert desk.outlet.take() == []
