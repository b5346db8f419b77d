"""The consumers of one stream together: they wake up for matching messages, and end with their stream."""

from __future__ import annotations

import pytest

from delivery.deliveries import Desk, delivered
from headwater.delivery.state import ConsumerState
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
