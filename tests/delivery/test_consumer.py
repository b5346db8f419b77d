"""One consumer delivers stored and new messages in order, redelivers them, and loses no wake-up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from delivery.deliveries import SECOND, Delivery, Desk
from headwater.delivery.consumer import DELETED
from headwater.delivery.outgoing import CHUNK
from headwater.errors import Error
from headwater.model.consumer import AckPolicy
from waits import until


def seqs(deliveries: list[Delivery]) -> list[int]:
    """Return the stream sequences of deliveries."""
    return [delivery.tokens[1] for delivery in deliveries]


async def test_what_is_there_is_delivered_in_order(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"c")
    consumer = desk.add()
    desk.pull(consumer, batch=3)
    sent = await desk.sent(3)
    assert [delivery.subject for delivery in sent] == [b"a", b"b", b"c"]
    assert [delivery.tokens[:3] for delivery in sent] == [[1, 1, 1], [1, 2, 2], [1, 3, 3]]
    assert [delivery.tokens[4] for delivery in sent] == [2, 1, 0]


async def test_new_messages_are_delivered_to_waiting_requests(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=5)
    await desk.rest()
    for subject in (b"a", b"b"):
        await desk.publish(subject)
        (delivery,) = await desk.sent(1)
        assert delivery.subject == subject


async def test_a_message_stored_as_the_pump_ends_is_not_left_waiting(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=100)
    for number in range(50):
        desk.stream.publishing.offer([(b"a", b"", b"", b"%d" % number)])
        # Wake-ups meet every stage of a pump: begun, reading, ended but not yet gone.
        for _ in range(number % 7):
            await asyncio.sleep(0)
    await desk.stream.publishing.settled()
    assert seqs(await desk.sent(50)) == list(range(1, 51))


async def test_a_wake_up_in_a_pump_s_last_step_has_it_look_again(desk: Desk) -> None:
    consumer = desk.add()
    looks = []

    def at_end() -> None:
        looks.append(consumer._pump.is_running)
        if len(looks) == 1:
            consumer.wake()

    consumer.at_end = at_end
    desk.pull(consumer, batch=1)
    await desk.rest()
    assert len(looks) == 2
    assert not consumer._pump.is_running


async def test_a_long_stream_goes_out_in_whole_buffers(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.publish(*[b"a"] * (CHUNK + 500))
    await desk.stream.checkpoint()
    consumer = desk.add(ack_policy=AckPolicy.NONE)
    buffers = []
    deliver: Callable[..., int] = desk.outlet.deliver

    def counted(*args: object) -> int:
        buffers.append(1)
        return deliver(*args)

    monkeypatch.setattr(desk.outlet, "deliver", counted)
    desk.pull(consumer, batch=5000)
    assert seqs(await desk.sent(CHUNK + 500)) == list(range(1, CHUNK + 501))
    assert len(buffers) <= 4


async def test_a_replay_leaves_others_their_turn(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 3000)
    consumer = desk.add(ack_policy=AckPolicy.NONE, deliver_subject="to", flow_control=False)
    turns = 0

    async def other() -> None:
        nonlocal turns
        while len(desk.outlet.sent) < 3000:
            turns += 1
            await asyncio.sleep(0)

    desk.listen(b"to")
    await other()
    assert turns > 2
    assert consumer.state.delivered.stream_seq == 3000


async def test_room_bounds_new_messages_and_an_ack_makes_room(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"c")
    consumer = desk.add(max_ack_pending=2)
    desk.pull(consumer, batch=3)
    first, _ = await desk.sent(2)
    desk.ack(first)
    assert seqs(await desk.sent(1)) == [3]


async def test_an_unacknowledged_message_comes_again_before_new_ones(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add(ack_wait=SECOND)
    desk.pull(consumer, batch=2)
    first, _ = await desk.sent(2)
    desk.ack(first)
    await desk.publish(b"c")
    desk.clock.advance(2 * SECOND)
    consumer.tick(desk.clock.now_ns())
    desk.pull(consumer, batch=5)
    again = await desk.sent(2)
    assert seqs(again) == [2, 3]
    assert [delivery.tokens[0] for delivery in again] == [2, 1]


async def test_a_message_removed_before_it_comes_again_counts_as_settled(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    (first,) = await desk.sent(1)
    await desk.stream.retention.remove(1)
    assert consumer.state.num_ack_pending == 0
    assert consumer.state.ack_floor.stream_seq == 1
    ((subject, advisory),) = desk.events()
    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.S.C"
    assert (advisory["stream_seq"], advisory["reason"]) == (1, DELETED)
    desk.ack(first)
    desk.pull(consumer, batch=1)
    assert seqs(await desk.sent(1)) == [2]


async def test_a_purge_moves_the_consumer_on(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"c")
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    await desk.sent(1)
    await desk.stream.retention.purge()
    assert consumer.state.num_ack_pending == 0
    assert consumer.state.ack_floor.stream_seq == 3
    assert (await consumer.info()).num_pending == 0
    await desk.publish(b"d")
    desk.pull(consumer, batch=1)
    assert seqs(await desk.sent(1)) == [4]


async def test_damage_is_tried_again_and_not_passed_over(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    await desk.publish(b"a")
    consumer = desk.add()
    with monkeypatch.context() as broken:

        def fail(seq: int) -> None:
            raise Error("a page is damaged")

        broken.setattr(consumer._feed, "resident", fail)
        desk.pull(consumer, batch=1)
        await desk.rest()
        assert desk.outlet.take() == []
    assert consumer.state.next_seq == 1
    desk.clock.advance(2 * SECOND)
    consumer.tick(desk.clock.now_ns())
    assert seqs(await desk.sent(1)) == [1]


async def test_only_headers_are_sent_where_that_is_asked_for(desk: Desk) -> None:
    await desk.publish(b"abc")
    consumer = desk.add(headers_only=True)
    desk.pull(consumer, batch=1)
    (delivery,) = await desk.sent(1)
    assert delivery.data == b""
    assert b"Nats-Msg-Size: 3\r\n" in delivery.headers


async def test_other_filters_hold_from_the_next_message_on(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"a", b"b")
    consumer = desk.add(filter_subject="a")
    desk.pull(consumer, batch=1)
    assert seqs(await desk.sent(1)) == [1]
    config = consumer.config
    consumer.reconfigure(type(config)(**{**_fields(config), "filter_subject": "b"}))
    assert (await consumer.info()).num_pending == 2
    desk.pull(consumer, batch=2)
    assert seqs(await desk.sent(2)) == [2, 4]
    await desk.publish(b"a", b"b")
    desk.pull(consumer, batch=1)
    assert seqs(await desk.sent(1)) == [6]


def _fields(config: object) -> dict[str, object]:
    return {name: getattr(config, name) for name in config.__struct_fields__}  # type: ignore[attr-defined]


async def test_a_consumer_that_starts_over_gets_everything_again(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add(ack_policy=AckPolicy.NONE)
    desk.pull(consumer, batch=2)
    await desk.sent(2)
    assert consumer.reset(2) == 2
    desk.pull(consumer, batch=1)
    (delivery,) = await desk.sent(1)
    assert delivery.tokens[:3] == [1, 2, 1]


async def test_a_restored_state_delivers_what_was_not_recorded(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add()
    recorded = consumer.state.dump()
    desk.pull(consumer, batch=2)
    await desk.sent(2)
    consumer.restore([recorded])
    desk.pull(consumer, batch=2)
    assert seqs(await desk.sent(2)) == [1, 2]


async def test_nothing_is_delivered_while_paused_and_all_of_it_afterwards(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(pause_until=desk.clock.now_ns() + SECOND)
    desk.pull(consumer, batch=1, expires=60 * SECOND)
    await desk.rest()
    assert desk.outlet.take() == []
    assert consumer.next_tick() == consumer.config.pause_until
    desk.clock.advance(2 * SECOND)
    consumer.tick(desk.clock.now_ns())
    assert seqs(await desk.sent(1)) == [1]


async def test_a_closed_consumer_delivers_nothing_and_asks_for_no_time(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    await desk.consumers.remove(consumer)
    desk.outlet.take()
    await desk.publish(b"a")
    await desk.rest()
    assert desk.outlet.take() == []
    assert consumer.tick(desk.clock.now_ns()) is None


async def test_a_consumer_without_demand_has_no_task(desk: Desk) -> None:
    consumers = [desk.add(f"C{n}") for n in range(20)]
    await desk.publish(b"a")
    await desk.rest()
    assert not any(consumer._pump.is_running for consumer in consumers)
    desk.pull(consumers[3], batch=1)
    await desk.sent(1)
    await until(lambda: not consumers[3]._pump.is_running)


async def test_a_pause_ends_by_the_wall_clock(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(pause_until=desk.clock.now_ns() + 3600 * SECOND)
    desk.pull(consumer, batch=1, expires=30 * SECOND)
    assert consumer.next_tick() <= desk.clock.steady_ns() + 60 * SECOND
    desk.clock.step(3600 * SECOND)
    consumer.tick(desk.clock.steady_ns())
    await desk.sent(1)


async def test_a_consumer_with_other_filters_leaves_those_it_had(desk: Desk) -> None:
    consumer = desk.add(filter_subject="a")
    config = consumer.config
    consumer.reconfigure(type(config)(**{**_fields(config), "filter_subject": "b"}))
    assert not desk.consumers.wants(b"a")
    assert desk.consumers.wants(b"b")
