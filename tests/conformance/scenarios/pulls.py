"""Pull requests: what each gets, and its status at the end."""

from typing import Any

from conformance.inbox import Used, inbox
from conformance.probe import Probe
from conformance.scenario import scenario

S = {"name": "S", "subjects": ["s.>"]}
SECOND = 1_000_000_000


async def consumer(probe: Probe, messages: int = 5, **config: Any) -> Used:
    """Return a consumer of a stream with so many messages."""
    await probe.create(S)
    for number in range(1, messages + 1):
        await probe.publish("s.a", b"%d" % number, label="publish")
    used = Used(probe, "S", "C")
    await used.create(**config)
    return used


@scenario
async def a_batch_is_as_large_as_asked_for(probe: Probe) -> None:
    used = await consumer(probe)
    await used.fetch(None, 1)
    await used.fetch(b"2", 2)
    await used.fetch({"batch": 1}, 1)
    await used.fetch({"batch": 9, "no_wait": True}, 2)
    await used.info()
    await used.fetch({"no_wait": True}, 1, "no batch")
    await used.fetch(b"x", 0, "no request at all")


@scenario
async def a_request_that_does_not_wait(probe: Probe) -> None:
    used = await consumer(probe, 2)
    await used.fetch({"batch": 2, "no_wait": True}, 2)
    await used.fetch({"batch": 2, "no_wait": True}, 1, "nothing there")
    await used.fetch({"batch": 2, "no_wait": True, "expires": SECOND // 4}, 1, "nothing comes")
    async with inbox(probe) as box:
        await used.pull(box, {"batch": 5, "no_wait": True, "expires": 20 * SECOND})
        await used.settle(num_waiting=1)
        await probe.publish("s.b", b"now")
        await box.take(2, "one, then no more")
    await used.info()


@scenario
async def a_request_s_time_runs_out(probe: Probe) -> None:
    used = await consumer(probe, 3)
    await used.fetch({"batch": 5, "expires": SECOND // 2}, 4, "some of them")
    await used.fetch({"batch": 5, "expires": SECOND // 4}, 1, "none of them")
    await used.fetch({"batch": 5, "expires": SECOND // 4, "max_bytes": 1000}, 1, "with bytes")
    await used.settle(num_waiting=0)


@scenario
async def a_request_has_a_heartbeat(probe: Probe) -> None:
    used = await consumer(probe, 2)
    request = {"batch": 5, "expires": SECOND, "idle_heartbeat": SECOND * 2 // 5}
    await used.fetch(request, 5, "two messages, two heartbeats, the end")
    for beat in (SECOND // 2 + 1, SECOND):
        await used.fetch({"batch": 5, "expires": SECOND, "idle_heartbeat": beat}, 1, f"beat {beat}")
    await used.fetch({"batch": 5, "idle_heartbeat": SECOND}, 1, "without an end")


@scenario
async def requests_take_so_many_bytes(probe: Probe) -> None:
    await probe.create(S)
    for size in (10, 100, 10, 400, 10):
        await probe.publish("s.a", b"x" * size, {"A": "b"} if size == 100 else None, label="publish")
    used = Used(probe, "S", "C")
    await used.create()
    wait = {"batch": 10, "expires": SECOND // 2}
    await used.fetch({**wait, "max_bytes": 90}, 2, "90")
    await used.fetch({**wait, "max_bytes": 20}, 1, "20")
    await used.fetch({**wait, "max_bytes": 300}, 3, "300")
    await used.fetch({"batch": 1, "max_bytes": 1000, "expires": SECOND}, 2, "one of 1000")
    await used.fetch({"batch": 2, "max_bytes": 1000, "no_wait": True}, 2, "the last, without waiting")
    await used.info()


@scenario
async def every_cap_is_kept(probe: Probe) -> None:
    used = await consumer(probe, 3, max_batch=2, max_expires=SECOND, max_bytes=1000)
    await used.fetch({"batch": 3, "expires": SECOND, "max_bytes": 10}, 1, "too many")
    await used.fetch({"batch": 1, "expires": 2 * SECOND, "max_bytes": 10}, 1, "too long")
    await used.fetch({"batch": 1, "expires": SECOND, "max_bytes": 2000}, 1, "too much")
    await used.fetch({"batch": 1, "max_bytes": 1000}, 1, "no end")
    await used.fetch({"batch": 1, "no_wait": True}, 1, "no bytes")
    await used.fetch({"batch": 1, "no_wait": True, "max_bytes": 1000}, 2, "as allowed")
    await used.fetch(b"3", 1, "a number too large")


@scenario
async def what_is_no_request(probe: Probe) -> None:
    used = await consumer(probe, 1)
    for bad in (b"{", b'{"batch":"x"}', b'{"batch":1} x', b"[]x{"):
        await used.fetch(bad, 1, f"pull {bad!r}")
    await used.fetch({"batch": 1, "group": "g", "no_wait": True}, 1, "a group where there is none")
    await used.fetch({"batch": 1, "expires": SECOND // 4, "priority": 10}, 1, "a priority that cannot be")
    await used.fetch(
        {"batch": 1, "expires": SECOND // 4, "min_pending": 9}, 1, "an overflow where there is none"
    )
    await used.fetch({"batch": 1, "expires": SECOND // 4, "id": "x"}, 1, "a pin where there is none")


@scenario
async def a_push_consumer_has_nothing_to_pull(probe: Probe) -> None:
    used = await consumer(probe, 1, deliver_subject="to.nobody")
    await used.fetch({"batch": 1, "no_wait": True}, 1)
    await used.info()


@scenario
async def requests_are_served_in_turn(probe: Probe) -> None:
    used = await consumer(probe, 0)
    async with inbox(probe) as first, inbox(probe) as second, inbox(probe) as third:
        for box in (first, second, third):
            await used.pull(box, {"batch": 2, "expires": 20 * SECOND})
        await used.settle(num_waiting=3)
        for number in range(1, 6):
            await probe.publish("s.a", b"%d" % number)
        await first.take(2, "first")
        await second.take(2, "second")
        await third.take(1, "third")
        await used.settle(num_waiting=1)
        await probe.publish("s.a", b"6")
        await third.take(1, "third again")
        await used.settle(num_waiting=0)


@scenario
async def as_many_requests_wait_as_allowed(probe: Probe) -> None:
    used = await consumer(probe, 0, max_waiting=2)
    async with inbox(probe) as first, inbox(probe) as second, inbox(probe) as third, inbox(probe) as fourth:
        await used.pull(first, {"batch": 1, "expires": 20 * SECOND})
        await used.pull(second, {"batch": 1, "expires": 20 * SECOND})
        await used.settle(num_waiting=2)
        await used.pull(third, {"batch": 1, "expires": 20 * SECOND})
        await third.take(1, "one too many")
        await used.pull(fourth, {"batch": 1, "expires": 20 * SECOND, "idle_heartbeat": 5 * SECOND})
        await used.settle(num_waiting=2)
        fourth.rest("one too many with a heartbeat")
        await used.pull(third, {"batch": 1, "no_wait": True})
        await third.take(1, "one too many without waiting")


@scenario
async def a_request_whose_client_left_is_dropped(probe: Probe) -> None:
    used = await consumer(probe, 0, max_waiting=1)
    async with inbox(probe) as gone:
        await used.pull(gone, {"batch": 1, "expires": 20 * SECOND})
        await used.settle(num_waiting=1)
    async with inbox(probe) as box:
        await used.pull(box, {"batch": 1, "no_wait": True})
        await box.take(1, "nothing there")
    await used.settle(num_waiting=0)


@scenario
async def no_more_than_allowed_are_unacknowledged(probe: Probe) -> None:
    used = await consumer(probe, 5, max_ack_pending=2)
    async with inbox(probe) as box:
        await used.pull(box, {"batch": 5, "expires": 20 * SECOND})
        first, second = await box.take(2)
        await used.settle(num_ack_pending=2)
        await used.ack(second)
        await box.take(1, "room for one")
        await used.info()
        async with inbox(probe) as other:
            await used.pull(other, {"batch": 1, "no_wait": True})
            await used.settle(num_waiting=2)
            other.rest("another waits too")
        await used.ack(first)
        await box.take(1, "room for another")
        await used.info()


@scenario
async def only_headers_are_sent(probe: Probe) -> None:
    await probe.create(S)
    await probe.publish("s.a", b"12345")
    await probe.publish("s.a", b"", {"A": "b"})
    await probe.publish("s.a", b"123", {"A": "b", "Nats-Msg-Size": "9"})
    used = Used(probe, "S", "C")
    await used.create(headers_only=True)
    await used.fetch({"batch": 3, "expires": SECOND}, 3)


@scenario
async def several_filters(probe: Probe) -> None:
    await probe.create(S)
    used = Used(probe, "S", "C")
    for subject in ("s.a", "s.b", "s.c", "s.a.x", "s.d", "s.b"):
        await probe.publish(subject, subject.encode())
    await used.create(filter_subjects=["s.a", "s.b", "s.*.x"])
    await used.info()
    await used.fetch({"batch": 2, "expires": SECOND}, 2)
    await used.info()
    await probe.publish("s.c", b"other")
    await probe.publish("s.q.x", b"more")
    await used.settle(num_pending=3)
    await used.fetch({"batch": 9, "no_wait": True}, 3)
    await used.fetch({"batch": 9, "no_wait": True}, 1)
    await used.info()
