"""Push consumers: where and when messages are delivered, and what is sent between them."""

from typing import Any

from conformance.inbox import Used, inbox
from conformance.probe import Probe
from conformance.scenario import scenario

S = {"name": "S", "subjects": ["s.>"]}
SECOND = 1_000_000_000


async def stored(probe: Probe, *subjects: str) -> Used:
    """Store a message on each subject; return a consumer still to be made."""
    await probe.create(S)
    for subject in subjects:
        await probe.publish(subject, subject.encode(), label="publish")
    return Used(probe, "S", "C")


@scenario
async def messages_come_as_long_as_somebody_listens(probe: Probe) -> None:
    used = await stored(probe, "s.a", "s.b")
    await used.create(deliver_subject="to.us")
    await used.info("nobody listens")
    async with inbox(probe, "to.us") as box:
        first, _ = await box.take(2)
        await used.settle("bound", push_bound=True)
        await probe.publish("s.c", b"live")
        await box.take(1)
        await used.ack(first)
        await used.info()
    await used.settle("unbound", push_bound=None)
    await probe.publish("s.d", b"later")
    await used.info("it waits")
    async with inbox(probe, "to.us") as box:
        await box.take(1, "for who comes next")


@scenario
async def every_way_to_begin(probe: Probe) -> None:
    await stored(probe, "s.a", "s.b", "s.a", "s.c", "s.b")
    third = (await probe.quietly("STREAM.MSG.GET.S", {"seq": 3}))["message"]["time"]
    configs: dict[str, dict[str, Any]] = {
        "all": {"deliver_policy": "all"},
        "last": {"deliver_policy": "last"},
        "last_b": {"deliver_policy": "last", "filter_subject": "s.b"},
        "last_two": {"deliver_policy": "last", "filter_subjects": ["s.a", "s.c"]},
        "last_none": {"deliver_policy": "last", "filter_subject": "s.none"},
        "new": {"deliver_policy": "new"},
        "seq": {"deliver_policy": "by_start_sequence", "opt_start_seq": 4},
        "seq_beyond": {"deliver_policy": "by_start_sequence", "opt_start_seq": 9},
        "seq_filter": {"deliver_policy": "by_start_sequence", "opt_start_seq": 2, "filter_subject": "s.b"},
        "time": {"deliver_policy": "by_start_time", "opt_start_time": third},
        "time_past": {"deliver_policy": "by_start_time", "opt_start_time": "1999-01-01T00:00:00Z"},
        "time_future": {"deliver_policy": "by_start_time", "opt_start_time": "2999-01-01T00:00:00Z"},
        "each": {"deliver_policy": "last_per_subject", "filter_subject": "s.>"},
        "each_two": {"deliver_policy": "last_per_subject", "filter_subjects": ["s.a", "s.c"]},
        "each_none": {"deliver_policy": "last_per_subject", "filter_subject": "s.none"},
    }
    for name, config in configs.items():
        used = Used(probe, "S", name)
        answer = await used.create(name, ack_policy="none", **config)
        async with inbox(probe) as box:
            await used.pull(box, {"batch": 2, "no_wait": True})
            pending = answer.get("num_pending", 0)
            # A status follows where there are fewer than two.
            await box.take(2 if pending else 1, f"{name}: the first")
            await used.info(f"{name}: then")
            await used.pull(box, {"batch": 9, "no_wait": True})
            await box.take(max(pending - 2, 0) + 1, f"{name}: the others")
    await probe.publish("s.b", b"new")
    for name in ("last_none", "new", "seq_beyond", "time_future", "each", "each_none"):
        used = Used(probe, "S", name)
        expected = {"num_pending": 1} if name in ("new", "each") else {}
        await used.settle(f"{name}: with a new message", **expected)
        await used.fetch({"batch": 1, "no_wait": True}, 1, f"{name}: the new one")


@scenario
async def a_start_in_an_empty_stream(probe: Probe) -> None:
    await probe.create(S)
    await probe.publish("s.a")
    await probe.publish("s.b")
    await probe.api("STREAM.PURGE.S")
    policies: dict[str, dict[str, Any]] = {
        "all": {},
        "last": {},
        "new": {},
        "by_start_sequence": {"opt_start_seq": 1},
        "by_start_time": {"opt_start_time": "1999-01-01T00:00:00Z"},
        "last_per_subject": {"filter_subject": "s.>"},
    }
    for policy, more in policies.items():
        used = Used(probe, "S", policy)
        await used.create(policy, deliver_policy=policy, **more)
    await probe.publish("s.a", b"first")
    for policy in policies:
        await Used(probe, "S", policy).fetch({"batch": 1, "no_wait": True}, 1, f"{policy} gets")


@scenario
async def last_per_subject_while_subjects_change(probe: Probe) -> None:
    used = await stored(probe, "s.a", "s.b", "s.a", "s.b", "s.c")
    await used.create(deliver_policy="last_per_subject", filter_subject="s.>", ack_policy="none")
    await probe.publish("s.a", b"newer")
    await used.settle(num_pending=4)
    await used.fetch({"batch": 1, "no_wait": True}, 1)
    await probe.publish("s.d", b"another")
    await used.settle(num_pending=4)
    await used.fetch({"batch": 9, "no_wait": True}, 5)
    await used.info()


@scenario
async def a_group_shares_the_messages(probe: Probe) -> None:
    used = await stored(probe)
    await used.create(deliver_subject="to.group", deliver_group="g", ack_policy="none")
    async with inbox(probe, "to.group") as alone:
        await probe.publish("s.a", b"for nobody")
        await used.info("a listener outside the group")
        alone.rest("nothing for it")
    async with inbox(probe, "to.group", "g") as one:
        await one.take(1, "for a member")
        await used.settle("bound", push_bound=True)
        async with inbox(probe, "to.group", "g") as two:
            for number in range(20):
                await probe.publish("s.a", b"%d" % number, label="publish")
            taken: list[Any] = []
            while len(taken) < 20:
                more = await one.next(1, 0.05) + await two.next(1, 0.05)
                assert more or len(taken) == 20
                taken += more
            probe.record("shared", "SUB to.group g", sorted(int(msg.data) for msg in taken))
    await used.settle("unbound", push_bound=None)


@scenario
async def heartbeats_come_when_nothing_else_does(probe: Probe) -> None:
    used = await stored(probe, "s.a", "s.b")
    async with inbox(probe) as box:
        await used.create(deliver_subject=box.subject, idle_heartbeat=SECOND // 5, filter_subject="s.a")
        await box.take(3, "a message, then heartbeats")
        await probe.publish("s.b", b"not for us")
        await box.take(1, "a heartbeat that looks further")


@scenario
async def flow_is_controlled(probe: Probe) -> None:
    await probe.create(S)
    for _ in range(6):
        await probe.publish("s.a", b"x" * 500_000, label="publish")
    used = Used(probe, "S", "C")
    async with inbox(probe) as box:
        await used.create(
            deliver_subject=box.subject, idle_heartbeat=SECOND // 2, flow_control=True, ack_policy="none"
        )
        arrived = await box.next(7, 3)
        kinds = [(msg.headers or {}).get("Description", "message") for msg in arrived]
        probe.record("the first is a request", "SUB", kinds.index("FlowControl Request") > 0)
        request = next(msg for msg in arrived if msg.reply.startswith("$JS.FC."))
        probe.record("a request", "SUB", box.shown(request))
        beats = [msg for msg in arrived if "Nats-Consumer-Stalled" in (msg.headers or {})]
        probe.record("a heartbeat that is stalled", "SUB", [box.shown(msg) for msg in beats[:1]])
        await probe.send(request.reply)
        messages = [msg for msg in arrived if msg.reply.startswith("$JS.ACK")]
        while len(messages) < 6:
            more = await box.next(1)
            assert more, "the flow went on"
            messages += [msg for msg in more if msg.reply.startswith("$JS.ACK")]
            for msg in more:
                if msg.reply.startswith("$JS.FC."):
                    await probe.send(msg.reply)
        probe.record("all of them", "SUB", len(messages))


@scenario
async def replay_keeps_the_pace(probe: Probe) -> None:
    used = await stored(probe, "s.a", "s.b", "s.c")
    async with inbox(probe) as box:
        await used.create(deliver_subject=box.subject, replay_policy="original", ack_policy="none")
        await box.take(3)
    slow = Used(probe, "S", "R")
    async with inbox(probe) as box:
        await slow.create(deliver_subject=box.subject, rate_limit_bps=1_000_000, ack_policy="none")
        await box.take(3)


@scenario
async def headers_go_without_their_data(probe: Probe) -> None:
    await probe.create(S)
    await probe.publish("s.a", b"12345", {"A": "b"})
    await probe.publish("s.b", b"")
    used = Used(probe, "S", "C")
    async with inbox(probe) as box:
        await used.create(deliver_subject=box.subject, headers_only=True, ack_policy="all")
        await box.take(2)


@scenario
async def messages_come_again(probe: Probe) -> None:
    used = await stored(probe, "s.a", "s.b", "s.c")
    async with inbox(probe) as box:
        await used.create(deliver_subject=box.subject, ack_wait=SECOND // 2, max_ack_pending=2, max_deliver=2)
        first, _ = await box.take(2)
        await used.ack(first)
        await box.take(1, "room for the third")
        await box.take(2, "both again")
        await used.settle("given up", num_ack_pending=0)


@scenario
async def the_subject_may_change_while_nobody_listens(probe: Probe) -> None:
    used = await stored(probe, "s.a")
    await used.create(deliver_subject="to.one")
    async with inbox(probe, "to.one") as box:
        await box.take(1)
        await used.settle(push_bound=True)
        await used.create("while somebody listens", deliver_subject="to.two")
    await used.settle(push_bound=None)
    await used.create("while nobody does", deliver_subject="to.two")
    await probe.publish("s.b")
    async with inbox(probe, "to.two") as box:
        await box.take(1)
