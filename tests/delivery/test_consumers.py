"""The consumers of one stream together: acks taken, states recorded, messages let go."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from delivery.deliveries import Delivery, Desk, desk
from headwater.delivery.consumer import Consumer
from headwater.delivery.state import ConsumerState
from headwater.model.consumer import AckPolicy
from headwater.model.stream import Retention
from headwater.stream.retention.hold import Hold
from headwater.stream.retention.removal import Removal
from stream.streams import Workshop, everything
from waits import until


async def delivered(running: Desk, consumer: Any, count: int) -> list[Delivery]:
    """Return so many messages, pulled."""
    running.pull(consumer, consumer.name.encode(), batch=count)
    return await running.sent(count)


async def left(running: Desk) -> list[int]:
    """Return the sequences that the stream still holds."""
    await running.stream.publishing.settled()
    return [message.seq for message in await everything(running.stream)]


def confirmed(workshop: Workshop) -> list[bytes]:
    """Return to whom an acknowledgement was confirmed."""
    lines = bytes(workshop.answers.frames).split(b"\r\n")
    return [line.split(b" ")[1] for line in lines if line.startswith(b"PUB ack")]


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
    events = [(subject.split(".")[4], told["stream_seq"]) for subject, told in desk.events()]
    assert events == [("MSG_NAKED", 2), ("MSG_TERMINATED", 4)]


async def test_a_nak_of_what_is_not_pending_is_not_told(desk: Desk) -> None:
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
    desk.ack(first._replace(reply=first.reply.replace(older, newer.replace(b"._.", b".elsewhere."), 1)))
    assert consumer.state.num_ack_pending == 1
    desk.ack(first._replace(reply=first.reply.replace(older, newer, 1)))
    assert consumer.state.num_ack_pending == 0


async def test_a_workqueue_lets_go_what_was_acknowledged(workshop: Workshop) -> None:
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


async def test_an_answer_for_all_up_to_one_lets_go_only_what_was_delivered(workshop: Workshop) -> None:
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


async def test_what_is_delivered_is_recorded_before_long(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        await running.publish(b"a")
        consumer = running.add()
        await delivered(running, consumer, 1)
        running.consumers.tick(0)
        await running.stream.publishing.settled()
        recorded = consumer.state.snapshot()
    async with workshop.stream() as reopened:
        restored = ConsumerState.restore(consumer.config, reopened.consumers.recorded("C"))
        assert restored == ConsumerState.restore(consumer.config, [recorded])


async def test_a_consumer_without_a_place_on_disk_is_not_recorded(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        running.add(mem_storage=True)
        running.consumers.tick(0)
        assert running.consumers.dump() == {}
    async with workshop.stream() as reopened:
        assert reopened.consumers.recorded("C") == []


async def test_a_removed_consumer_is_forgotten_on_disk_too(workshop: Workshop) -> None:
    async with desk(workshop) as running:
        consumer = running.add()
        running.consumers.tick(0)
        await running.consumers.remove(consumer)
        await running.stream.publishing.settled()
    async with workshop.stream() as reopened:
        assert reopened.consumers.recorded("C") == []


async def test_only_consumers_that_take_a_subject_wake_for_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[str] = []
    for name, subject in (("A", "a"), ("B", "b"), ("ALL", "")):
        consumer = desk.add(name, filter_subject=subject)
        monkeypatch.setattr(consumer, "wake", lambda name=name: woken.append(name))
    await desk.publish(b"a")
    assert sorted(woken) == ["A", "ALL"]


async def test_interest_is_asked_of_push_consumers_only(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name, subject in (("PULL", ""), ("PUSH", "to")):
        consumer = desk.add(name, deliver_subject=subject)
        monkeypatch.setattr(consumer, "on_interest", lambda name=name: asked.append(name))
    desk.consumers.on_interest()
    assert asked == ["PUSH"]


async def test_an_ack_of_what_was_not_delivered_settles_nothing(desk: Desk) -> None:
    await desk.publish(*[b"a"] * 3)
    consumer = desk.add(ack_policy=AckPolicy.ALL)
    (first,) = await delivered(desk, consumer, 1)
    desk.ack(first._replace(reply=b"$JS.ACK.S.C.1.3.3.0.0"), b"+ACK", b"ack")
    assert consumer.state.num_ack_pending == 1
    assert consumer.state.ack_floor.stream_seq == 0


async def test_states_that_never_were_durable_are_written_whole_after_a_rebuild(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    await desk.publish(b"a", b"b")
    kept, new = desk.add("KEPT"), desk.add("NEW")
    durable = kept.state.dump()
    await delivered(desk, kept, 1)
    await delivered(desk, new, 1)
    new.state.take_delta()
    monkeypatch.setattr(desk.stream.consumers, "recorded", lambda name: [durable] if name == "KEPT" else [])
    desk.consumers.on_rebuilt()
    assert kept.state.next_seq == 1
    change = new.state.take_delta()
    assert change is not None
    assert ConsumerState.restore(new.config, [change]) == new.state


async def test_hidden_consumers_are_not_listed(desk: Desk) -> None:
    desk.add("B")
    desk.add("A")
    desk.add("HIDDEN", deliver_subject="to", direct=True)
    assert [consumer.name for consumer in desk.consumers.listed] == ["A", "B"]
    assert len(desk.consumers) == 3


async def test_given_up_messages_are_reported_once(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(max_deliver=1, ack_wait=1000)
    await delivered(desk, consumer, 1)
    for _ in range(2):
        desk.clock.advance(10_000)
        consumer.tick(desk.clock.now_ns())
    ((subject, told),) = desk.events()
    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    assert (told["stream_seq"], told["deliveries"]) == (1, 1)


async def test_a_stream_s_end_is_told_to_all_who_wait(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    await desk.consumers.delete()
    (told,) = await desk.sent(1)
    assert told.headers.startswith(b"NATS/1.0 409 Consumer Deleted")
    assert [subject for subject, _ in desk.events()] == ["$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.C"]
    assert len(desk.consumers) == 0


async def test_two_thousand_consumers_that_nobody_asks_cost_no_tasks(desk: Desk) -> None:
    consumers = [desk.add(f"C{n}", filter_subject=f"s.{n % 10}") for n in range(2000)]
    busy = consumers[:20]
    for consumer in busy:
        desk.pull(consumer, consumer.name.encode(), batch=1)
    await desk.publish(*(b"s.%d" % n for n in range(10)))
    await until(lambda: len(desk.outlet.sent) == len(busy))
    assert not any(consumer._pump.is_running for consumer in consumers[20:])


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


async def test_a_removal_is_looked_at_by_those_alone_whom_it_concerns(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    consumers = {name: desk.add(name, filter_subject=name) for name in ("a", "b", "c")}
    changed = desk.add("d", filter_subject="a")
    await desk.publish(b"a", b"b")
    await delivered(desk, consumers["a"], 1)
    await delivered(desk, changed, 1)
    changed.reconfigure(msgspec.structs.replace(changed.config, filter_subject="c"))
    looked: list[str] = []
    on_removed = Consumer.on_removed

    def looking(self: Consumer, low: int, high: int, removal: Removal) -> None:
        looked.append(self.name)
        on_removed(self, low, high, removal)

    monkeypatch.setattr(Consumer, "on_removed", looking)
    assert await desk.stream.retention.remove(1)
    assert sorted(looked) == ["a", "d"]
    assert consumers["a"].state.num_ack_pending == changed.state.num_ack_pending == 0
