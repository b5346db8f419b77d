"""A pull consumer: each request gets as many messages as it asked for, and a status at its end."""

from __future__ import annotations

from typing import Any

from delivery.deliveries import SECOND, Delivery, Desk
from headwater.delivery.pull import LEFT_NS, MOST_HEARD, UNHEARD_NS
from headwater.delivery.pull_queue import AWAY_NS
from headwater.model.consumer import PriorityPolicy
from waits import until


def status(delivery: Delivery) -> str:
    """Return the code and words of a status."""
    return delivery.headers.split(b"\r\n")[0].decode().removeprefix("NATS/1.0 ")


async def test_requests_are_served_one_message_each_in_turn(desk: Desk) -> None:
    consumer = desk.add()
    for box in (b"one", b"two", b"three"):
        desk.pull(consumer, box, batch=2)
    await desk.publish(*[b"a"] * 5)
    sent = sorted(await desk.sent(5), key=lambda delivery: delivery.tokens[1])
    assert [delivery.to for delivery in sent] == [b"one", b"two", b"three", b"one", b"two"]
    assert consumer.num_waiting() == 1


async def test_turns_continue_where_they_ended(desk: Desk) -> None:
    consumer = desk.add()
    for box in (b"one", b"two", b"three"):
        desk.pull(consumer, box, batch=9)
    served = []
    for _ in range(3):
        await desk.publish(*[b"a"] * 4)
        served += sorted(await desk.sent(4), key=lambda delivery: delivery.tokens[1])
    assert [delivery.to for delivery in served] == [b"one", b"two", b"three"] * 4


async def test_requests_of_one_client_that_overlap_get_messages_in_order(desk: Desk) -> None:
    consumer = desk.add()
    for batch in (2, 5):
        desk.pull(consumer, b"one", batch=batch)
    await desk.publish(*[b"a"] * 6)
    assert [delivery.tokens[1] for delivery in await desk.sent(6)] == [1, 2, 3, 4, 5, 6]
    assert [waiting.left for waiting in consumer.queue] == [1]


async def test_a_request_without_wait_gets_a_status_at_the_end(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add()
    desk.pull(consumer, batch=2, no_wait=True)
    message, end = await desk.sent(2)
    assert message.data == b"a"
    assert status(end) == "404 No Messages"
    desk.pull(consumer, batch=2, no_wait=True)
    assert [status(delivery) for delivery in await desk.sent(1)] == ["404 No Messages"]


async def test_a_request_that_does_not_wait_waits_for_room(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add(max_ack_pending=1)
    desk.pull(consumer, batch=1)
    (first,) = await desk.sent(1)
    desk.pull(consumer, b"other", batch=1, no_wait=True)
    await desk.rest()
    assert desk.outlet.take() == []
    desk.ack(first)
    (second,) = await desk.sent(1)
    assert second.to == b"other"


async def test_a_request_that_does_not_wait_is_not_kept_while_paused(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(pause_until=desk.clock.now_ns() + SECOND)
    desk.pull(consumer, batch=1, no_wait=True)
    assert [status(delivery) for delivery in await desk.sent(1)] == ["404 No Messages"]


async def test_the_time_of_a_request_runs_out(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=3, expires=SECOND, max_bytes=100)
    assert consumer.next_tick() == desk.clock.now_ns() + SECOND
    desk.clock.advance(SECOND)
    consumer.tick(desk.clock.now_ns())
    (end,) = await desk.sent(1)
    assert status(end) == "408 Request Timeout"
    assert b"Nats-Pending-Messages: 3\r\nNats-Pending-Bytes: 100\r\n" in end.headers


async def test_a_request_has_its_heartbeat(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add(filter_subject="a")
    desk.pull(consumer, batch=3, expires=10 * SECOND, idle_heartbeat=SECOND)
    await desk.sent(1)
    desk.clock.advance(SECOND)
    consumer.tick(desk.clock.now_ns())
    (beat,) = await desk.sent(1)
    assert status(beat) == "100 Idle Heartbeat"
    assert b"Nats-Last-Consumer: 1\r\nNats-Last-Stream: 2\r\n" in beat.headers


async def test_bytes_are_counted_to_the_last_one(desk: Desk) -> None:
    await desk.publish(b"a", b"a")
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    (first,) = await desk.sent(1)
    size = len(first.reply) + len(first.subject) + len(first.data)
    desk.pull(consumer, batch=2, max_bytes=size - 1)
    (refused,) = await desk.sent(1)
    assert status(refused) == "409 Message Size Exceeds MaxBytes"
    desk.pull(consumer, batch=2, max_bytes=size)
    (second,) = await desk.sent(1)
    assert second.tokens[1] == 2
    assert consumer.num_waiting() == 0


async def test_of_a_batch_as_many_go_out_as_fit(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 4)
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    (first,) = await desk.sent(1)
    size = len(first.reply) + len(first.subject) + len(first.data)
    desk.pull(consumer, batch=3, max_bytes=2 * size)
    assert [delivery.tokens[1] for delivery in await desk.sent(2)] == [2, 3]
    assert consumer.num_waiting() == 0, "no byte is left"


async def test_only_so_many_requests_wait_for_the_count(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(filter_subject="a", max_waiting=2)
    for box in (b"one", b"two", b"three"):
        desk.pull(consumer, box, batch=1)
    refused, message = await desk.sent(2)
    assert (refused.to, status(refused)) == (b"three", "409 Exceeded MaxWaiting")
    assert message.to == b"one"


async def test_redelivered_messages_are_counted_as_well(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    (first,) = await desk.sent(1)
    desk.ack(first, b"-NAK")
    desk.pull(consumer, batch=1, max_bytes=10)
    (refused,) = await desk.sent(1)
    assert status(refused) == "409 Message Size Exceeds MaxBytes"
    assert consumer.state.num_queued == 1


async def test_what_is_no_request_is_said(desk: Desk) -> None:
    consumer = desk.add()
    consumer.pull(b"{", b"box")
    (answer,) = await desk.sent(1)
    assert status(answer).startswith("400 Bad Request - ")
    consumer.pull(b"1", b"")
    assert consumer.num_waiting() == 0


async def test_a_request_without_a_listener_is_dropped_after_a_while(desk: Desk) -> None:
    consumer = desk.add()
    consumer.pull(b"1", b"nobody")
    assert consumer.num_waiting() == 1
    desk.clock.advance(UNHEARD_NS + 1)
    assert consumer.num_waiting() == 0
    await desk.publish(b"a")
    await desk.rest()
    assert desk.outlet.take() == []


async def test_a_request_whose_client_was_seen_to_leave_is_dropped_at_once(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    desk.leave(b"box")
    await desk.publish(b"a")
    await desk.rest()
    assert desk.outlet.take() == []
    assert consumer.num_waiting() == 0


async def test_a_request_on_a_subject_that_was_left_before_has_little_time(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    desk.leave(b"box")
    consumer.pull(b"1", b"box")
    desk.clock.advance(LEFT_NS // 2)
    assert consumer.num_waiting() == 1
    desk.clock.advance(LEFT_NS)
    assert consumer.num_waiting() == 0


async def test_so_many_subjects_are_remembered_and_no_more(desk: Desk) -> None:
    consumer = desk.add(max_waiting=2 * MOST_HEARD)
    for number in range(MOST_HEARD + 5):
        desk.pull(consumer, b"box.%d" % number, batch=1)
        consumer.num_waiting()
    assert len(consumer._heard) == MOST_HEARD


async def test_requests_wait_until_it_is_known_what_waits(desk: Desk) -> None:
    await desk.publish(b"a", b"b", b"a")
    consumer = desk.add(filter_subject="a")
    assert not consumer.backlog.is_known
    desk.pull(consumer, b"one", batch=1, no_wait=True)
    desk.pull(consumer, b"two", batch=1, no_wait=True)
    first, second = await desk.sent(2)
    assert (first.to, first.tokens[4], second.to, second.tokens[4]) == (b"one", 1, b"two", 0)


async def test_a_waiting_client_gets_the_end(desk: Desk) -> None:
    for name, end in (("A", "deleted"), ("B", "leave_waiting")):
        consumer = desk.add(name)
        desk.pull(consumer, batch=2)
        getattr(consumer, end)()
    deleted, stopped = await desk.sent(2)
    assert status(deleted) == "409 Consumer Deleted"
    assert status(stopped) == "409 Server Shutdown"


async def test_an_unused_consumer_is_given_up(desk: Desk) -> None:
    gone: list[Any] = []
    desk.consumers.on_abandoned = gone.append
    consumer = desk.add(inactive_threshold=10 * SECOND)
    desk.pull(consumer, batch=1, expires=8 * SECOND)
    desk.clock.advance(5 * SECOND)
    consumer.tick(desk.clock.now_ns())
    assert gone == []
    desk.clock.advance(6 * SECOND)
    consumer.tick(desk.clock.now_ns())
    assert gone == [consumer]


async def test_a_pinned_client_gets_its_pin_id_and_an_advisory_is_sent(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(priority_policy=PriorityPolicy.PINNED_CLIENT, priority_groups=("g",))
    desk.pull(consumer, batch=1, group="g")
    (delivery,) = await desk.sent(1)
    ((subject, advisory),) = desk.events()
    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.PINNED.S.C"
    assert f"Nats-Pin-Id: {advisory['pinned_id']}\r\n".encode() in delivery.headers
    consumer.unpin("g")
    ((subject, advisory),) = desk.events()
    assert (subject, advisory["reason"]) == ("$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.C", "admin")


async def test_overflow_conditions_are_checked_before_each_message(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 5)
    consumer = desk.add(priority_policy=PriorityPolicy.OVERFLOW, priority_groups=("g",))
    desk.pull(consumer, batch=5, group="g", min_pending=3)
    assert len(await desk.sent(3)) == 3
    assert consumer.num_waiting() == 1


async def test_everybody_is_served_when_the_leaf_comes_back(desk: Desk) -> None:
    consumer = desk.add()
    desk.outlet.opened = False
    desk.consumers.on_interest()
    desk.pull(consumer, batch=1)
    await desk.publish(b"a")
    await desk.rest()
    assert desk.outlet.take() == []
    desk.outlet.opened = True
    desk.consumers.on_interest()
    await desk.sent(1)
    await until(lambda: consumer.num_waiting() == 0)


async def test_a_request_survives_a_client_that_reconnects_at_once(desk: Desk) -> None:
    consumer, other = desk.add(), desk.add("D")
    desk.pull(consumer, b"box", batch=2)
    desk.pull(other, b"box", batch=1)
    assert (consumer.num_waiting(), other.num_waiting()) == (1, 1)
    desk.leave(b"box")
    await desk.publish(b"a")
    await desk.rest()
    assert (consumer.num_waiting(), other.num_waiting()) == (0, 0)
    assert desk.outlet.take() == []
    desk.listen(b"box")
    assert sorted(d.reply.split(b".")[3] for d in await desk.sent(2)) == [b"C", b"D"]
    assert (consumer.num_waiting(), other.num_waiting()) == (1, 0)
    await desk.publish(b"b")
    assert [d.data for d in await desk.sent(1)] == [b"b"]


async def test_a_request_whose_client_stays_away_is_forgotten(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, b"box", batch=1)
    assert consumer.num_waiting() == 1
    desk.leave(b"box")
    assert consumer.num_waiting() == 0
    desk.clock.advance(AWAY_NS)
    consumer.tick(desk.clock.now_ns())
    desk.listen(b"box")
    await desk.publish(b"a")
    await desk.sent(0)


async def test_another_request_is_served_while_a_client_is_away(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, b"one", batch=1)
    desk.pull(consumer, b"two", batch=1)
    assert consumer.num_waiting() == 2
    desk.leave(b"one")
    await desk.publish(b"a")
    assert [delivery.to for delivery in await desk.sent(1)] == [b"two"]
    desk.pull(consumer, b"two", batch=1)
    desk.listen(b"one")
    await desk.publish(b"b")
    assert [delivery.to for delivery in await desk.sent(1)] == [b"one"]


async def test_requests_outlive_a_lost_leaf_connection(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, b"box", batch=1)
    assert consumer.num_waiting() == 1
    desk.outlet.opened = False
    desk.leave(b"box")
    desk.clock.advance(5 * AWAY_NS)
    assert consumer.num_waiting() == 1
    desk.outlet.opened = True
    desk.listen(b"box")
    await desk.publish(b"a")
    assert [delivery.to for delivery in await desk.sent(1)] == [b"box"]


async def test_a_request_that_does_not_wait_ends_at_a_heartbeat_without_room(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add(max_ack_pending=1)
    desk.pull(consumer, batch=2, no_wait=True, expires=30 * SECOND, idle_heartbeat=SECOND)
    await desk.sent(1)
    desk.clock.advance(SECOND)
    consumer.tick(desk.clock.now_ns())
    assert [status(delivery) for delivery in await desk.sent(1)] == ["404 No Messages"]
    assert consumer.num_waiting() == 0


async def test_a_request_that_got_nothing_gets_heartbeats_to_its_end(desk: Desk) -> None:
    await desk.publish(b"a", b"b")
    consumer = desk.add(max_ack_pending=1)
    desk.pull(consumer, batch=1)
    await desk.sent(1)
    desk.pull(consumer, batch=2, no_wait=True, expires=30 * SECOND, idle_heartbeat=SECOND)
    desk.clock.advance(SECOND)
    consumer.tick(desk.clock.now_ns())
    assert [status(delivery) for delivery in await desk.sent(1)] == ["100 Idle Heartbeat"]


async def test_the_status_that_ends_a_request_goes_out_with_its_last_messages(desk: Desk) -> None:
    await desk.publish(*[b"a" * 100] * 5)
    consumer = desk.add()
    turns = desk.outlet.turns
    desk.pull(consumer, batch=10, max_bytes=500, expires=SECOND)
    sent = await desk.sent(3)
    assert [bool(delivery.data) for delivery in sent] == [True, True, False]
    assert status(sent[-1]) == "409 Message Size Exceeds MaxBytes"
    assert desk.outlet.turns == turns + 1
    desk.pull(consumer, b"other", batch=10, no_wait=True)
    assert status((await desk.sent(4))[-1]) == "404 No Messages"
    assert desk.outlet.turns == turns + 2


async def test_messages_published_one_by_one_go_out_together(desk: Desk) -> None:
    for _ in range(300):
        await desk.publish(b"a")
    consumer = desk.add()
    desk.pull(consumer, batch=200)
    assert [delivery.tokens[1] for delivery in await desk.sent(200)] == list(range(1, 201))
    desk.pull(consumer, batch=200)
    assert [delivery.tokens[1] for delivery in await desk.sent(100)] == list(range(201, 301))
    assert desk.outlet.turns == 2


async def test_runs_of_other_subjects_are_passed_over_together(desk: Desk) -> None:
    for index in range(90):
        await desk.publish(b"b" if index % 30 == 29 else b"a")
    consumer = desk.add(filter_subject="b")
    desk.pull(consumer, batch=5)
    assert [delivery.tokens[1] for delivery in await desk.sent(3)] == [30, 60, 90]
    assert desk.outlet.turns == 1
    assert consumer.state.next_seq == 91


async def test_many_messages_are_delivered_again_in_one_turn(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 50)
    consumer = desk.add(ack_wait=SECOND)
    desk.pull(consumer, batch=50)
    await desk.sent(50)
    turns = desk.outlet.turns
    desk.clock.advance(2 * SECOND)
    consumer.tick(desk.clock.now_ns())
    desk.pull(consumer, batch=50)
    assert [delivery.tokens[:2] for delivery in await desk.sent(50)] == [[2, s] for s in range(1, 51)]
    assert desk.outlet.turns == turns + 1
