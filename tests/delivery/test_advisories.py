"""Advisories about consumers have the fields that clients look for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from delivery.deliveries import SECOND, Desk
from headwater.delivery.advisories import ConsumerAdvisories
from headwater.delivery.pin import PinChange

ADVISORY = "io.nats.jetstream.advisory.v1."


@pytest.fixture
def advisories(desk: Desk) -> ConsumerAdvisories:
    return ConsumerAdvisories(desk.frames.append, desk.clock, "lake")


def only(desk: Desk) -> tuple[str, dict[str, Any]]:
    """Return the one event, without what every one has."""
    ((subject, advisory),) = desk.events()
    common = {"stream": "S", "consumer": "C", "domain": "lake"}
    assert advisory | common == advisory
    assert len(advisory.pop("id")) == 22
    assert advisory.pop("timestamp").endswith("Z")
    return subject, {name: value for name, value in advisory.items() if name not in common}


async def test_the_life_of_a_consumer_is_reported(desk: Desk, advisories: ConsumerAdvisories) -> None:
    consumer = desk.add()
    for action, name in (("create", "CREATED"), ("delete", "DELETED")):
        advisories.action(consumer, action)
        subject, advisory = only(desk)
        assert subject == f"$JS.EVENT.ADVISORY.CONSUMER.{name}.S.C"
        assert advisory == {"type": ADVISORY + "consumer_action", "action": action}


async def test_a_pause_is_reported_with_its_end(desk: Desk, advisories: ConsumerAdvisories) -> None:
    consumer = desk.add()
    advisories.paused(consumer)
    _, advisory = only(desk)
    assert (advisory["paused"], advisory["pause_until"]) == (False, "0001-01-01T00:00:00Z")
    until = desk.clock.now_ns() + SECOND
    consumer.reconfigure(msgspec.structs.replace(consumer.config, pause_until=until))
    advisories.paused(consumer)
    subject, advisory = only(desk)
    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.PAUSE.S.C"
    assert advisory == {
        "type": ADVISORY + "consumer_pause",
        "paused": True,
        "pause_until": "2023-11-14T22:13:21Z",
    }


async def test_the_end_of_a_message_is_reported(desk: Desk, advisories: ConsumerAdvisories) -> None:
    consumer = desk.add()
    place = {"stream_seq": 7, "consumer_seq": 8, "deliveries": 2}
    advisories.nak(consumer, 7, 8, 2)
    assert only(desk)[1] == {"type": ADVISORY + "nak", **place}
    advisories.terminated(consumer, 7, 8, 2, "")
    assert only(desk)[1] == {"type": ADVISORY + "terminated", **place}
    advisories.terminated(consumer, 7, 8, 2, "why")
    assert only(desk)[1]["reason"] == "why"
    advisories.max_deliveries(consumer, 7, 2)
    assert only(desk)[1] == {"type": ADVISORY + "max_deliver", "stream_seq": 7, "deliveries": 2}


async def test_pins_and_unpins_are_reported(desk: Desk, advisories: ConsumerAdvisories) -> None:
    consumer = desk.add()
    advisories.pinned(consumer, PinChange("g", "an id"))
    subject, advisory = only(desk)
    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.PINNED.S.C"
    assert (advisory["account"], advisory["group"], advisory["pinned_id"]) == ("$G", "g", "an id")
    advisories.pinned(consumer, PinChange("g", "an id", "timeout"))
    subject, advisory = only(desk)
    assert subject == "$JS.EVENT.ADVISORY.CONSUMER.UNPINNED.S.C"
    assert (advisory["group"], advisory["reason"]) == ("g", "timeout")


async def test_a_sampled_ack_reports_how_long_it_took(desk: Desk, advisories: ConsumerAdvisories) -> None:
    await desk.publish(b"a")
    consumer = desk.add(sample_freq="100%")
    desk.pull(consumer, batch=1)
    await desk.sent(1)
    desk.clock.advance(SECOND)
    advisories.sample(consumer, 1, 1, 1)
    subject, advisory = only(desk)
    assert subject == "$JS.EVENT.METRIC.CONSUMER.ACK.S.C"
    assert advisory == {
        "type": "io.nats.jetstream.metric.v1.consumer_ack",
        "stream_seq": 1,
        "consumer_seq": 1,
        "deliveries": 1,
        "ack_time": SECOND,
    }


async def test_acks_that_are_not_sampled_are_not_reported(desk: Desk, advisories: ConsumerAdvisories) -> None:
    await desk.publish(b"a")
    for name, frequency in (("C", ""), ("D", "0"), ("E", "100")):
        consumer = desk.add(name, sample_freq=frequency)
        advisories.sample(consumer, 1, 1, 1)
    assert desk.events() == [], "not even where all are, if the message is not pending"
