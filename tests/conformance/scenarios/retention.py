"""Retention that depends on consumers: interest, and workqueues."""

from typing import Any

from conformance.inbox import Used, inbox
from conformance.probe import Probe
from conformance.scenario import scenario

SECOND = 1_000_000_000


async def stream(probe: Probe, retention: str, **config: Any) -> None:
    """Make the stream."""
    await probe.create({"name": "S", "subjects": ["s.>"], "retention": retention} | config)


async def gone(probe: Probe, messages: int) -> None:
    """Wait until so many messages are left, and record which."""
    await probe.settle("S", lambda state: state["messages"] == messages)
    await probe.contents("S")


@scenario
async def interest_keeps_what_somebody_needs(probe: Probe) -> None:
    await stream(probe, "interest")
    await probe.publish("s.a", b"for nobody")
    await probe.state("S")
    one, two = Used(probe, "S", "ONE"), Used(probe, "S", "TWO")
    await one.create()
    await two.create(filter_subject="s.b")
    for subject in ("s.a", "s.b", "s.a", "s.b"):
        await probe.publish(subject)
    first = await one.fetch({"batch": 9, "no_wait": True}, 5)
    for msg in first[:2]:
        await one.ack(msg)
    await gone(probe, 3)
    second = await two.fetch({"batch": 9, "no_wait": True}, 3)
    await two.ack(second[0])
    await gone(probe, 2)
    await two.ack(second[1])
    await one.ack(first[3], b"+TERM")
    await gone(probe, 1)
    await one.info()
    await two.info()


@scenario
async def a_deleted_consumer_needs_nothing(probe: Probe) -> None:
    await stream(probe, "interest")
    one, two = Used(probe, "S", "ONE"), Used(probe, "S", "TWO")
    await one.create(filter_subject="s.a")
    await two.create(filter_subject="s.*")
    for subject in ("s.a", "s.b", "s.a", "s.b"):
        await probe.publish(subject)
    await probe.api("CONSUMER.DELETE.S.TWO")
    await gone(probe, 2)
    await probe.publish("s.b", b"for nobody now")
    await probe.state("S")
    await probe.api("CONSUMER.DELETE.S.ONE")
    await gone(probe, 0)
    await probe.publish("s.a", b"for nobody at all")
    await probe.state("S")


@scenario
async def a_filter_that_narrows_needs_less(probe: Probe) -> None:
    await stream(probe, "interest")
    one = Used(probe, "S", "ONE")
    await one.create()
    for subject in ("s.a", "s.b", "s.a"):
        await probe.publish(subject)
    await one.create(filter_subject="s.b")
    await gone(probe, 1)
    await one.info()


@scenario
async def interest_without_acks_ends_at_delivery(probe: Probe) -> None:
    await stream(probe, "interest")
    one = Used(probe, "S", "ONE")
    await one.create(ack_policy="none")
    for subject in ("s.a", "s.b", "s.a"):
        await probe.publish(subject)
    await one.fetch({"batch": 2, "no_wait": True}, 2)
    await gone(probe, 1)
    await one.info()


@scenario
async def interest_with_acks_of_all(probe: Probe) -> None:
    await stream(probe, "interest")
    one, two = Used(probe, "S", "ONE"), Used(probe, "S", "TWO")
    await one.create(ack_policy="all", filter_subject="s.a")
    await two.create(filter_subject="s.b")
    for subject in ("s.a", "s.b", "s.a", "s.b", "s.a"):
        await probe.publish(subject)
    taken = await one.fetch({"batch": 9, "no_wait": True}, 4)
    await one.ack(taken[1])
    await gone(probe, 3)
    await one.info()


@scenario
async def what_was_given_up_is_kept(probe: Probe) -> None:
    await stream(probe, "interest")
    one = Used(probe, "S", "ONE")
    await one.create(max_deliver=1, ack_wait=SECOND // 4)
    await probe.publish("s.a")
    await probe.publish("s.b")
    taken = await one.fetch({"batch": 2, "no_wait": True}, 2)
    await one.ack(taken[0])
    await one.settle(num_ack_pending=0)
    await gone(probe, 1)
    await one.ack(taken[1])
    await gone(probe, 0)
    await one.info()


@scenario
async def a_stream_becomes_one_of_interest(probe: Probe) -> None:
    await stream(probe, "limits")
    for subject in ("s.a", "s.b", "s.a", "s.c"):
        await probe.publish(subject)
    one = Used(probe, "S", "ONE")
    await one.create(filter_subjects=["s.a", "s.b"])
    taken = await one.fetch({"batch": 1, "no_wait": True}, 1)
    await one.ack(taken[0])
    await probe.state("S")
    await probe.update({"name": "S", "subjects": ["s.>"], "retention": "interest"})
    await probe.settle("S", lambda state: state["first_seq"] == 2)
    await probe.contents("S")
    await probe.update({"name": "S", "subjects": ["s.>"], "retention": "workqueue"})
    await probe.update({"name": "S", "subjects": ["s.>"], "retention": "limits"})
    await one.info()


@scenario
async def a_workqueue_keeps_until_acknowledged(probe: Probe) -> None:
    await stream(probe, "workqueue")
    for subject in ("s.a", "s.b", "s.a", "s.b"):
        await probe.publish(subject)
    one, two = Used(probe, "S", "ONE"), Used(probe, "S", "TWO")
    await one.create(filter_subject="s.a")
    await two.create(filter_subject="s.b")
    first = await one.fetch({"batch": 9, "no_wait": True}, 3)
    await one.ack(first[1])
    await gone(probe, 3)
    second = await two.fetch({"batch": 9, "no_wait": True}, 3)
    await two.ack(second[0], b"+TERM")
    await gone(probe, 2)
    await one.ack(first[0], b"-NAK")
    await one.fetch({"batch": 9, "no_wait": True}, 2)
    await one.info()
    await probe.api("CONSUMER.DELETE.S.TWO")
    await probe.state("S")
    third = Used(probe, "S", "THREE")
    await third.create(filter_subject="s.b")
    await third.fetch({"batch": 9, "no_wait": True}, 2)


@scenario
async def what_a_workqueue_allows(probe: Probe) -> None:
    await stream(probe, "workqueue")
    configs: dict[str, dict[str, Any]] = {
        "none": {"ack_policy": "none"},
        "all": {"ack_policy": "all"},
        "new": {"deliver_policy": "new"},
        "first": {"filter_subject": "s.a"},
        "same": {"filter_subject": "s.a"},
        "wider": {"filter_subject": "s.*"},
        "unfiltered": {},
        "second": {"filter_subjects": ["s.b", "s.c"]},
        "overlapping": {"filter_subjects": ["s.c", "s.d"]},
    }
    for name, config in configs.items():
        await Used(probe, "S", name).create(name, **config)
    await Used(probe, "S", "second").create("wider than allowed", filter_subject="s.>")
    await probe.api("CONSUMER.NAMES.S")


@scenario
async def a_workqueue_keeps_what_was_given_up(probe: Probe) -> None:
    await stream(probe, "workqueue")
    one = Used(probe, "S", "ONE")
    await one.create(max_deliver=1, ack_wait=SECOND // 4)
    await probe.publish("s.a")
    taken = await one.fetch({"batch": 1, "no_wait": True}, 1)
    await one.settle(num_ack_pending=0)
    await probe.state("S")
    await one.ack(taken[0])
    await gone(probe, 0)


@scenario
async def limits_hold_for_a_workqueue_too(probe: Probe) -> None:
    await stream(probe, "workqueue", max_msgs=2)
    one = Used(probe, "S", "ONE")
    await one.create()
    for subject in ("s.a", "s.b"):
        await probe.publish(subject)
    await one.fetch({"batch": 1, "no_wait": True}, 1)
    await probe.publish("s.c")
    await one.settle(num_ack_pending=0)
    await one.fetch({"batch": 9, "no_wait": True}, 3)
    await one.info()


@scenario
async def a_push_consumer_empties_a_stream(probe: Probe) -> None:
    await stream(probe, "interest")
    one = Used(probe, "S", "ONE")
    async with inbox(probe) as box:
        await one.create(deliver_subject=box.subject)
        for subject in ("s.a", "s.b", "s.c"):
            await probe.publish(subject)
        for msg in await box.take(3):
            await one.ack(msg)
        await gone(probe, 0)
        await one.info()
