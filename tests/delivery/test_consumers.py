"""The consumers of one stream together: they wake up for matching messages, and end with their stream."""

from __future__ import annotations

import pytest

from delivery.deliveries import Desk, delivered
from delivery.deliveries import desk as run_desk
from headwater.delivery.state import ConsumerState
from headwater.model.stream import Retention
from stream.streams import Workshop, everything
from waits import until


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


async def test_given_up_messages_are_reported_once(desk: Desk) -> None:
    await desk.publish(b"a")
    consumer = desk.add(max_deliver=1, ack_wait=1000)
    await delivered(desk, consumer, 1)
    for _ in range(2):
        desk.clock.advance(10_000)
        consumer.tick(desk.clock.now_ns())
    ((subject, advisory),) = desk.events()
    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.S.C"
    assert (advisory["stream_seq"], advisory["deliveries"]) == (1, 1)


async def test_a_deleted_stream_is_reported_to_all_waiting_requests(desk: Desk) -> None:
    consumer = desk.add()
    desk.pull(consumer, batch=1)
    await desk.consumers.delete()
    (status,) = await desk.sent(1)
    assert status.headers.startswith(b"NATS/1.0 409 Consumer Deleted")
    assert [subject for subject, _ in desk.events()] == ["$JS.EVENT.ADVISORY.CONSUMER.DELETED.S.C"]
    assert len(desk.consumers) == 0


async def test_two_thousand_consumers_without_demand_have_no_tasks(desk: Desk) -> None:
    consumers = [desk.add(f"C{n}", filter_subject=f"s.{n % 10}") for n in range(2000)]
    busy = consumers[:20]
    for consumer in busy:
        desk.pull(consumer, consumer.name.encode(), batch=1)
    await desk.publish(*(b"s.%d" % n for n in range(10)))
    await until(lambda: len(desk.outlet.sent) == len(busy))
    assert not any(consumer._pump.is_running for consumer in consumers[20:])


async def test_a_checkpoint_after_the_close_contains_every_state(workshop: Workshop) -> None:
    """A fold that a copy asked for may still run when the engine stops, and ends after the consumers."""
    async with run_desk(workshop) as running:
        await running.publish(b"a", b"b")
        consumer = running.add()
        (message,) = await delivered(running, consumer, 1)
        running.ack(message, reply=b"ack")
        await running.rest()
        await running.consumers.close()
        await running.stream.checkpoint()
    async with workshop.stream() as reopened:
        recorded = reopened.consumers.recorded("C")
        assert ConsumerState.restore(consumer.config, recorded).ack_floor.stream_seq == 1


async def test_a_rebuild_after_the_close_deletes_no_consumer(workshop: Workshop) -> None:
    async with run_desk(workshop) as running:
        await running.publish(b"a", b"b")
        consumer = running.add()
        (message,) = await delivered(running, consumer, 1)
        running.ack(message, reply=b"ack")
        await running.rest()
        durable = consumer.state.snapshot()
        await running.consumers.close()
        running.consumers.on_rebuilt()
        running.consumers.recorder.tick(0)
        await running.stream.checkpoint()
    async with workshop.stream() as reopened:
        restored = ConsumerState.restore(consumer.config, reopened.consumers.recorded("C"))
        assert restored == ConsumerState.restore(consumer.config, [durable])


async def test_a_consumer_that_cannot_be_opened_keeps_its_record(workshop: Workshop) -> None:
    async with run_desk(workshop) as running:
        running.add("NEWER")
        running.consumers.recorder.tick(0)
        await running.rest()
    async with run_desk(workshop) as running:
        before = list(running.stream.consumers.recorded("NEWER"))
        running.consumers.not_opened("NEWER")
        running.consumers.expect(["NEWER"])
        running.consumers.on_rebuilt()
        running.consumers.recorder.tick(0)
        await running.stream.checkpoint()
    async with workshop.stream() as reopened:
        assert before
        assert reopened.consumers.recorded("NEWER") == before


async def test_a_message_stays_that_closed_consumers_may_need(workshop: Workshop) -> None:
    async with run_desk(workshop, retention=Retention.INTEREST) as running:
        running.add()
        await running.publish(b"a")
        await running.consumers.close()
        await running.stream.retention.drop_unneeded()
        await running.publish(b"b")
        await running.stream.publishing.settled()
        assert [message.seq for message in await everything(running.stream)] == [1, 2]
