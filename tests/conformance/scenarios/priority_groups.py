"""Priority groups: which of the clients that wait gets the next message."""

from typing import Any

from conformance.inbox import Used, inbox
from conformance.probe import Probe
from conformance.scenario import scenario

SECOND = 1_000_000_000
LONG = {"batch": 1, "expires": 20 * SECOND, "group": "g"}


async def consumer(probe: Probe, policy: str, messages: int = 0, **config: Any) -> Used:
    """Return a consumer with a priority group."""
    await probe.create({"name": "S", "subjects": ["s.>"]})
    for number in range(1, messages + 1):
        await probe.publish("s.a", b"%d" % number, label="publish")
    used = Used(probe, "S", "C")
    await used.create(priority_policy=policy, priority_groups=["g"], **config)
    await used.info()
    return used


@scenario
async def what_no_group_allows(probe: Probe) -> None:
    used = await consumer(probe, "overflow", 1)
    one = {"batch": 1, "no_wait": True}
    await used.fetch(one, 1, "no group")
    await used.fetch({**one, "group": "other"}, 1, "another group")
    await used.fetch({**one, "group": "g", "id": "x"}, 1, "a pin")
    await used.fetch({**one, "group": "g", "priority": 10}, 1, "too low a priority")
    await used.fetch(None, 1, "no object at all")
    await probe.api("CONSUMER.UNPIN.S.C", {"group": "g"}, label="unpin")


@scenario
async def overflow_serves_when_much_waits(probe: Probe) -> None:
    used = await consumer(probe, "overflow", 3)
    async with inbox(probe) as box:
        await used.pull(box, {**LONG, "batch": 9, "min_pending": 3})
        await box.take(1, "down to two")
        await used.settle(num_waiting=1)
        await probe.publish("s.a", b"4")
        await box.take(1, "one more")
        await used.info()
    async with inbox(probe) as box:
        await used.pull(box, {**LONG, "batch": 9, "min_ack_pending": 3})
        await used.settle(num_pending=2)
        await used.fetch({"batch": 1, "group": "g", "expires": SECOND}, 1, "who asks for nothing special")
        await box.take(1, "three are unacknowledged")
        await used.info()


@scenario
async def one_client_is_pinned(probe: Probe) -> None:
    used = await consumer(probe, "pinned_client", 0, priority_timeout=20 * SECOND)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.*.S.C") as heard:
        async with inbox(probe) as first, inbox(probe) as second:
            await used.pull(first, {**LONG, "batch": 2})
            await used.settle(num_waiting=1)
            await used.pull(second, LONG)
            await used.settle(num_waiting=2)
            await probe.publish("s.a", b"1")
            (pinned,) = await first.take(1, "pinned")
            await used.info()
            pin = (pinned.headers or {})["Nats-Pin-Id"]
            await probe.publish("s.a", b"2")
            await first.take(1, "pinned still")
            await probe.publish("s.a", b"3")
            await used.settle("only the pinned is served", num_pending=1)
            await used.pull(first, {**LONG, "id": pin})
            await first.take(1, "pinned again")
            await used.fetch({**LONG, "id": "nonsense"}, 1, "another pin")
            await used.info()
            await probe.publish("s.a", b"4")
            await probe.api("CONSUMER.UNPIN.S.C", {"group": "g"}, label="unpin")
            await second.take(1, "the other is pinned now")
            await used.info()
            await used.fetch({**LONG, "id": pin}, 1, "the old pin")
        await heard.take(3)
    await probe.api("CONSUMER.UNPIN.S.C", {"group": "other"}, label="unpin another group")
    await probe.api("CONSUMER.UNPIN.S.C", {}, label="unpin no group")
    await probe.api("CONSUMER.UNPIN.S.C", b"{", label="unpin nonsense")
    await probe.api("CONSUMER.UNPIN.S.NONE", {"group": "g"}, label="unpin none")


@scenario
async def a_pin_ends_by_itself(probe: Probe) -> None:
    used = await consumer(probe, "pinned_client", 2, priority_timeout=SECOND)
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.*.S.C") as heard:
        await used.fetch(LONG, 1, "pinned")
        await used.fetch({**LONG, "expires": 20 * SECOND}, 1, "another, later")
        await heard.take(3)
    await used.info()


@scenario
async def a_stale_pin_is_refused(probe: Probe) -> None:
    used = await consumer(probe, "pinned_client", 1)
    await used.fetch({**LONG, "id": "stale", "batch": 3, "max_bytes": 500}, 1, "nobody is pinned")
    await used.info()


@scenario
async def some_come_first(probe: Probe) -> None:
    used = await consumer(probe, "prioritized")
    async with inbox(probe) as low, inbox(probe) as high, inbox(probe) as same:
        await used.pull(low, {**LONG, "batch": 2, "priority": 5})
        await used.pull(high, {**LONG, "batch": 2, "priority": 1})
        await used.pull(same, {**LONG, "batch": 2, "priority": 1})
        await used.settle(num_waiting=3)
        for box in (high, same, high, same, low, low):
            await probe.publish("s.a", label="publish")
            await box.take(1, "in turn")
    await used.info()
