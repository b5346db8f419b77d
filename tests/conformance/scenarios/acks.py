"""Acknowledgements: each kind, and what the consumer's state becomes after each."""

from typing import Any

from conformance.inbox import Used, inbox
from conformance.probe import Probe
from conformance.scenario import scenario

S = {"name": "S", "subjects": ["s.>"]}
SECOND = 1_000_000_000


async def delivered(probe: Probe, messages: int = 5, **config: Any) -> tuple[Used, list[Any]]:
    """Return a consumer to which all messages of its stream were delivered, and those messages."""
    await probe.create(S)
    for number in range(1, messages + 1):
        await probe.publish("s.a", b"%d" % number, label="publish")
    used = Used(probe, "S", "C")
    await used.create(**config)
    return used, await used.fetch({"batch": messages, "no_wait": True}, messages)


@scenario
async def each_message_by_itself(probe: Probe) -> None:
    used, messages = await delivered(probe)
    await used.info()
    for number in (1, 3, 2, 0, 4):
        await used.ack(messages[number])
        await used.info(f"after {number + 1}")
    await used.ack(messages[0])
    await used.info("after one twice")


@scenario
async def all_up_to_one(probe: Probe) -> None:
    used, messages = await delivered(probe, ack_policy="all")
    await used.info()
    await used.ack(messages[2])
    await used.info("after 3")
    await used.ack(messages[0])
    await used.info("after 1")
    await used.ack(messages[4], b"+TERM")
    await used.info("after 5")


@scenario
async def none_at_all(probe: Probe) -> None:
    used, messages = await delivered(probe, ack_policy="none")
    await used.info()
    await probe.send(messages[0].reply, b"+ACK")
    await probe.send(messages[0].reply, b"-NAK")
    await used.info()


@scenario
async def what_is_not_pending(probe: Probe) -> None:
    used, messages = await delivered(probe, 2)
    await probe.publish("s.a", b"not delivered")
    tokens = messages[1].reply.split(".")
    for body in (b"", b"+OK", b"+WPI", b"-NAK", b"+TERM", b"+UNKNOWN"):
        await used.ack(messages[0], body)
    await used.info()
    await probe.send(".".join([*tokens[:5], "3", "3", *tokens[7:]]), b"+ACK")
    await probe.send(".".join([*tokens[:5], "99", "99", *tokens[7:]]), b"+ACK")
    await probe.send(".".join([*tokens[:5], "x", "99", *tokens[7:]]), b"+ACK")
    await used.info("after acks of what was not delivered")


@scenario
async def the_newer_form_of_ack_subjects(probe: Probe) -> None:
    used, messages = await delivered(probe, 3)
    tokens = messages[1].reply.split(".")
    newer = ".".join(["$JS", "ACK", "_", "szMpdrwD", *tokens[2:]])
    probe.record("answered", newer, await probe.ask(newer, b"+ACK"))
    await used.info()
    longer = ".".join(["$JS", "ACK", "_", "szMpdrwD", *messages[0].reply.split(".")[2:], "token"])
    probe.record("answered too", longer, await probe.ask(longer, b"+ACK"))
    await used.info()


@scenario
async def a_nak_delivers_again(probe: Probe) -> None:
    used, messages = await delivered(probe)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.MSG_NAKED.>") as heard:
        await used.ack(messages[3], b"-NAK")
        await used.ack(messages[1], b"-NAK")
        await used.info()
        await probe.publish("s.a", b"new")
        again = await used.fetch({"batch": 5, "no_wait": True}, 4, "again, then the new one")
        await used.info()
        await used.ack(again[0])
        await used.ack(again[1], b"-NAK junk")
        await used.info()
        await used.fetch({"batch": 5, "no_wait": True}, 2, "and again")
        await used.info()
        await heard.take(3)


@scenario
async def a_nak_may_ask_for_time(probe: Probe) -> None:
    used, messages = await delivered(probe)
    await used.ack(messages[0], b'-NAK {"delay": 600000000}')
    await used.ack(messages[1], b"-NAK 200ms")
    await used.ack(messages[2], b"-NAK")
    await used.fetch({"batch": 5, "no_wait": True}, 2, "one at once")
    await used.fetch({"batch": 2, "expires": 20 * SECOND}, 2, "two later")
    await used.info()


@scenario
async def work_in_progress_takes_longer(probe: Probe) -> None:
    used, messages = await delivered(probe, 3, ack_wait=SECOND)
    await used.ack(messages[0])
    await used.ack(messages[1], b"+WPI")
    await used.info()
    async with inbox(probe) as box:
        await used.pull(box, {"batch": 2, "expires": 20 * SECOND})
        # Which of the two comes first depends on how exactly a server keeps its times.
        again = sorted(msg.data.decode() for msg in await box.next(2))
        probe.record("when the wait is over", "pull", again)
    await used.info()


@scenario
async def a_term_ends_a_message(probe: Probe) -> None:
    used, messages = await delivered(probe)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>") as heard:
        await used.ack(messages[0], b"+TERM")
        await used.ack(messages[2], b"+TERM not wanted")
        await used.ack(messages[2], b"+TERM once more")
        await used.info()
        await used.ack(messages[1])
        await used.info()
        await heard.take(3)


@scenario
async def an_ack_asks_for_the_next(probe: Probe) -> None:
    await probe.create(S)
    for number in range(1, 7):
        await probe.publish("s.a", b"%d" % number, label="publish")
    used = Used(probe, "S", "C")
    await used.create()
    (first,) = await used.fetch(None, 1)
    async with inbox(probe) as box:
        await probe.nc.publish(first.reply, b"+NXT", reply=box.subject)
        (second,) = await box.take(1, "the next")
        await probe.nc.publish(second.reply, b"+NXT 2", reply=box.subject)
        _, fourth = await box.take(2, "the next two")
        await used.info()
        await probe.nc.publish(fourth.reply, b'+NXT {"batch": 9, "no_wait": true}', reply=box.subject)
        last = await box.take(3, "the rest")
        await probe.nc.publish(last[1].reply, b'+NXT {"batch": 9, "no_wait": true}', reply=box.subject)
        await box.take(1, "nothing left")
    await used.info()


@scenario
async def an_ack_is_sampled(probe: Probe) -> None:
    used, messages = await delivered(probe, 3, sample_freq="100%")
    async with probe.listening("$JS.EVENT.METRIC.>") as heard:
        for msg in messages:
            await used.ack(msg)
        await used.ack(messages[0])
        await heard.take(3)


@scenario
async def unacknowledged_messages_come_again(probe: Probe) -> None:
    used, messages = await delivered(probe, 4, ack_wait=SECOND // 2)
    await used.ack(messages[1])
    await used.info()
    again = await used.fetch({"batch": 3, "expires": 20 * SECOND}, 3, "again, in order")
    await used.info()
    await used.ack(again[2])
    await used.info()
    await used.fetch({"batch": 2, "expires": 20 * SECOND}, 2, "a third time")
    await used.info()
    for msg in again[:2]:
        await used.ack(msg)
    await used.info()


@scenario
async def waits_grow_with_each_delivery(probe: Probe) -> None:
    backoff = [SECOND // 5, SECOND // 2, SECOND]
    used, _ = await delivered(probe, 2, backoff=backoff, max_deliver=4)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>") as heard:
        for times in ("second", "third", "fourth"):
            await used.fetch({"batch": 2, "expires": 20 * SECOND}, 2, times)
            await used.info()
        await used.fetch({"batch": 1, "expires": 2 * SECOND}, 1, "no fifth")
        await heard.take(2)
        await used.info("given up")


@scenario
async def so_many_deliveries_and_no_more(probe: Probe) -> None:
    used, messages = await delivered(probe, 3, ack_wait=SECOND // 2, max_deliver=2)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>") as heard:
        await used.ack(messages[0])
        again = await used.fetch({"batch": 2, "expires": 20 * SECOND}, 2, "once more")
        await used.info()
        await used.fetch({"batch": 1, "expires": SECOND}, 1, "no third")
        await heard.take(2)
        await used.info("given up")
        await used.ack(again[0])
        await used.info("a late ack")
        await probe.publish("s.a", b"new")
        await used.fetch({"batch": 2, "no_wait": True}, 2, "the new one only")
        await used.info()


@scenario
async def one_delivery_only(probe: Probe) -> None:
    used, messages = await delivered(probe, 1, ack_wait=SECOND // 4, max_deliver=1)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>") as heard:
        await used.settle("given up", num_ack_pending=0)
        await heard.take(1)
        await used.ack(messages[0])
        await used.info()


@scenario
async def a_nak_does_not_exceed_the_deliveries(probe: Probe) -> None:
    used, messages = await delivered(probe, 2, max_deliver=2)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>") as heard:
        await used.ack(messages[0], b"-NAK")
        (again,) = await used.fetch({"batch": 1, "no_wait": True}, 1, "once more")
        await used.ack(again, b"-NAK")
        await used.fetch({"batch": 1, "expires": SECOND // 4}, 1, "no more")
        await heard.take(1)
        await used.info()


@scenario
async def redeliveries_do_not_wait_for_room(probe: Probe) -> None:
    used, messages = await delivered(probe, 2, max_ack_pending=2, ack_wait=SECOND // 2)
    await probe.publish("s.a", b"no room")
    await used.fetch({"batch": 2, "expires": 20 * SECOND}, 2, "again")
    await used.ack(messages[0])
    await used.fetch({"batch": 1, "expires": SECOND}, 1, "room now")
    await used.info()


@scenario
async def messages_go_while_they_are_pending(probe: Probe) -> None:
    used, messages = await delivered(probe, 6)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>") as heard:
        await probe.api("STREAM.MSG.DELETE.S", {"seq": 2})
        await used.settle(num_ack_pending=5)
        await heard.take(1)
        await probe.api("STREAM.PURGE.S", {"seq": 5})
        await used.settle(num_ack_pending=2)
        await used.ack(messages[4])
        await used.info()
        await probe.api("STREAM.PURGE.S")
        await used.settle(num_ack_pending=0)
        await probe.publish("s.a", b"new")
        await used.fetch({"batch": 9, "no_wait": True}, 2)
        await used.info()


@scenario
async def messages_go_before_they_are_delivered(probe: Probe) -> None:
    await probe.create(S)
    for subject in ("s.a", "s.b", "s.a", "s.b", "s.a", "s.b"):
        await probe.publish(subject, label="publish")
    used, other = Used(probe, "S", "C"), Used(probe, "S", "A")
    await used.create()
    await other.create(filter_subject="s.a")
    await other.fetch({"batch": 1, "no_wait": True}, 1)
    await probe.api("STREAM.MSG.DELETE.S", {"seq": 3})
    await used.info()
    await other.info()
    await probe.api("STREAM.PURGE.S", {"filter": "s.b"})
    await used.info()
    await other.info()
    await used.fetch({"batch": 9, "no_wait": True}, 3)
    await used.info()
    await other.fetch({"batch": 9, "no_wait": True}, 2)
    await probe.api("STREAM.PURGE.S")
    await used.info()
    await other.info()
