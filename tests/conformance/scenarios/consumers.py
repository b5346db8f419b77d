"""Consumers declared, changed, listed, paused, reset and deleted."""

from typing import Any

from conformance.inbox import Used, inbox
from conformance.probe import Probe
from conformance.scenario import scenario

S = {"name": "S", "subjects": ["s.>"]}
CREATE = "CONSUMER.CREATE"


def body(**config: Any) -> dict[str, Any]:
    """Return a create request."""
    return {"stream_name": "S", "config": config}


async def five(probe: Probe) -> None:
    """Make the stream with five messages."""
    await probe.create(S)
    for subject in ("s.a", "s.b", "s.a", "s.c", "s.b"):
        await probe.publish(subject, subject.encode())


@scenario
async def every_form_of_create(probe: Probe) -> None:
    await five(probe)
    await probe.api(f"{CREATE}.S", body(name="plain", ack_policy="explicit"))
    await probe.api(f"{CREATE}.S.named", body(durable_name="named", ack_policy="explicit"))
    await probe.api(f"{CREATE}.S.short", body(name="short"))
    await probe.api(f"{CREATE}.S.nameless", body(ack_policy="all"))
    await probe.api(f"{CREATE}.S.one.s.a", body(durable_name="one", filter_subject="s.a"))
    await probe.api(f"{CREATE}.S.wild.s.>", body(name="wild", filter_subject="s.>"))
    await probe.api("CONSUMER.DURABLE.CREATE.S.old", body(durable_name="old", ack_policy="explicit"))
    await probe.api(f"{CREATE}.S", body(name="several", filter_subjects=["s.a", "s.b"]))
    await probe.api(f"{CREATE}.S.push", body(deliver_subject="to.nobody", ack_policy="none"))
    answer = await probe.quietly(f"{CREATE}.S", body(ack_policy="explicit"))
    named = {key: value for key, value in answer.items() if key != "name"}
    named["config"].pop("name", None)
    probe.record("without a name", f"{CREATE}.S", named | {"name length": len(answer["name"])})
    await probe.quietly(f"CONSUMER.DELETE.S.{answer['name']}")
    await probe.api("CONSUMER.NAMES.S")
    await probe.api("CONSUMER.LIST.S")
    await probe.api("CONSUMER.NAMES.S", {"offset": 5})
    await probe.api("CONSUMER.LIST.S", {"offset": 99})
    await probe.api("STREAM.INFO.S")
    # There is no such endpoint, and nobody says so.
    await probe.api("ACCOUNT.INFO", timeout=5)


@scenario
async def what_no_create_may_ask(probe: Probe) -> None:
    await five(probe)
    await probe.api(f"{CREATE}.S.x", body(durable_name="y"), label="another name")
    await probe.api(f"{CREATE}.S", body(durable_name="y"), label="durable without a name in the subject")
    await probe.api(f"{CREATE}.S.x.s.a", body(name="x", filter_subject="s.b"), label="another filter")
    await probe.api(f"{CREATE}.S.x.s.a", body(name="x"), label="no filter")
    await probe.api(f"{CREATE}.S.x.s.a", body(name="x", filter_subjects=["s.a"]), label="many filters")
    await probe.api("CONSUMER.DURABLE.CREATE.S.x", body(name="x"), label="no durable")
    await probe.api(f"{CREATE}.NONE.x", {"stream_name": "NONE", "config": {"name": "x"}}, label="no stream")
    await probe.api(f"{CREATE}.S.x", {"stream_name": "T", "config": {"name": "x"}}, label="another stream")
    await probe.api(f"{CREATE}.S.x", {"config": {"name": "x"}}, label="no stream name")
    await probe.api(f"{CREATE}.S.x", b"", label="no body")
    await probe.api(f"{CREATE}.S.x", b"{", label="half a body")
    await probe.api(f"{CREATE}.S.x", body(name="x", wings=2), label="an unknown field")
    await probe.api(f"{CREATE}.S.x", {**body(name="x"), "action": "update"}, label="update of none")
    await probe.api(f"{CREATE}.S.x", {**body(name="x"), "action": "fly"}, label="no action")
    await probe.api("CONSUMER.NAMES.S")


@scenario
async def what_may_change(probe: Probe) -> None:
    await five(probe)
    used = Used(probe, "S", "C")
    await used.create("first")
    await used.create("the same")
    await used.create("create the same", action="create")
    await used.create("create another", action="create", description="d")
    await used.create("update", action="update", description="d", ack_wait=5_000_000_000)
    await used.create("max deliver", max_deliver=3, max_ack_pending=5)
    await used.create("backoff", max_deliver=3, backoff=[1_000_000_000, 2_000_000_000])
    await used.create("filter", filter_subject="s.a")
    await used.info()
    await used.create("filters", filter_subjects=["s.a", "s.b"])
    await used.info()
    await used.create("headers only", headers_only=True, sample_freq="50%", metadata={"a": "b"})
    fields: tuple[tuple[str, Any], ...] = (
        ("ack_policy", "none"),
        ("deliver_policy", "new"),
        ("replay_policy", "original"),
        ("max_waiting", 3),
        ("mem_storage", True),
        ("deliver_subject", "x"),
        ("opt_start_seq", 3),
    )
    for field, value in fields:
        await used.create(f"another {field}", **{field: value})
    await used.info()


@scenario
async def a_filter_that_changes_counts_again(probe: Probe) -> None:
    await five(probe)
    used = Used(probe, "S", "C")
    await used.create(filter_subject="s.a")
    first = await used.fetch({"batch": 1, "expires": 5_000_000_000}, 1)
    await used.info()
    await used.create("everything now")
    await used.info()
    await used.ack(first[0])
    await used.info()
    await used.fetch({"batch": 9, "no_wait": True}, 5)
    await used.info()


@scenario
async def a_consumer_is_deleted_once(probe: Probe) -> None:
    await five(probe)
    used = Used(probe, "S", "C")
    await used.create()
    async with inbox(probe) as box:
        await used.pull(box, {"batch": 9, "expires": 5_000_000_000})
        await box.take(5)
        await probe.api("CONSUMER.DELETE.S.C")
        await box.take(1, "advisory")
    await probe.api("CONSUMER.DELETE.S.C")
    await probe.api("CONSUMER.INFO.S.C")
    await probe.api("CONSUMER.DELETE.NONE.C")
    await probe.api("CONSUMER.INFO.S.C", b"{}", label="info with a body")
    await probe.api("CONSUMER.DELETE.S.C", b"x", label="delete with a body")
    async with inbox(probe) as box:
        await used.pull(box)
        await box.take(1, "pull from none")


@scenario
async def a_consumer_may_pause(probe: Probe) -> None:
    await five(probe)
    used = Used(probe, "S", "C")
    await used.create()
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.PAUSE.>") as heard:
        await probe.api("CONSUMER.PAUSE.S.C", {"pause_until": "2999-01-01T00:00:00Z"})
        await used.settle(paused=True)
        async with inbox(probe) as box:
            await used.pull(box, {"batch": 2, "expires": 20_000_000_000})
            await used.settle("a request waits", num_waiting=1)
            box.rest("nothing while paused")
            await probe.api("CONSUMER.PAUSE.S.C", label="resume")
            # Here nats-server lets the request wait until something else happens.
            await probe.publish("s.a", b"something else")
            probe.record("delivered", box.subject, [msg.data.decode() for msg in await box.next(2)])
        await used.info()
        await probe.api("CONSUMER.PAUSE.S.C", {"pause_until": "1999-01-01T00:00:00Z"}, label="until long ago")
        await heard.take(2)
    await probe.api("CONSUMER.PAUSE.S.NONE", label="pause none")
    await probe.api("CONSUMER.PAUSE.S.C", b"{", label="no request")


@scenario
async def a_consumer_may_be_created_paused(probe: Probe) -> None:
    await five(probe)
    used = Used(probe, "S", "C")
    async with inbox(probe) as box:
        until = "2999-01-01T00:00:00Z"
        await used.create(
            pause_until=until, deliver_subject=box.subject, idle_heartbeat=200_000_000, ack_policy="none"
        )
        await used.info()
        await box.take(1, "a heartbeat all the same")
        await probe.api("CONSUMER.PAUSE.S.C", label="resume")
        messages = [msg for msg in await box.next(8) if msg.reply]
        probe.record("then the messages", box.subject, [box.shown(msg) for msg in messages])


@scenario
async def a_consumer_may_restart(probe: Probe) -> None:
    await five(probe)
    used = Used(probe, "S", "C")
    await used.create()
    taken = await used.fetch({"batch": 4, "expires": 5_000_000_000}, 4)
    await used.ack(taken[0])
    await used.ack(taken[2])
    await used.info()
    await probe.api("CONSUMER.RESET.S.C", label="after the ack floor")
    await used.fetch({"batch": 9, "no_wait": True}, 4)
    await probe.api("CONSUMER.RESET.S.C", {"seq": 3}, label="at 3")
    await used.info()
    await used.fetch({"batch": 9, "no_wait": True}, 3)
    await probe.api("CONSUMER.RESET.S.C", {"seq": 99}, label="beyond the end")
    await used.info()
    await probe.api("CONSUMER.RESET.S.C", {"seq": 1}, label="at 1")
    await probe.api("CONSUMER.RESET.S.C", b"{", label="no request")
    other = Used(probe, "S", "P")
    await other.create(deliver_policy="by_start_sequence", opt_start_seq=3)
    await probe.api("CONSUMER.RESET.S.P", {"seq": 1}, label="before its start")
    await probe.api("CONSUMER.RESET.S.P", {"seq": 4}, label="after its start")
    third = Used(probe, "S", "N")
    await third.create(deliver_policy="new")
    await probe.api("CONSUMER.RESET.S.N", {"seq": 2}, label="of new")
    await probe.api("CONSUMER.RESET.S.N", label="of new, empty")


@scenario
async def unused_consumers_go(probe: Probe) -> None:
    await five(probe)
    await Used(probe, "S", "D").create(inactive_threshold=300_000_000)
    await Used(probe, "S", "E").create(durable_name=None, inactive_threshold=300_000_000)
    await Used(probe, "S", "P").create(inactive_threshold=300_000_000, deliver_subject="to.nobody")
    kept = Used(probe, "S", "K")
    async with inbox(probe) as box:
        await kept.create(deliver_subject=box.subject, inactive_threshold=300_000_000)
        await probe.settle("S", lambda state: state["consumer_count"] == 1)
        await box.take(5)
        await kept.info()
    await probe.settle("S", lambda state: state["consumer_count"] == 0)


@scenario
async def what_no_pause_needs_of_a_server(probe: Probe) -> None:
    await five(probe)
    for name, until in (("zero", "0001-01-01T00:00:00Z"), ("past", "1970-01-01T00:00:00Z")):
        config = body(durable_name=name, ack_policy="explicit", pause_until=until)
        await probe.api(f"{CREATE}.S.{name}", config)
        await probe.api(f"CONSUMER.INFO.S.{name}")
        await probe.api(f"{CREATE}.S.{name}", config, label=f"{name} again")


@scenario
async def limits_that_consumers_exceed(probe: Probe) -> None:
    await five(probe)
    hour = 3_600_000_000_000
    one = body(durable_name="one", ack_policy="explicit", max_ack_pending=50, inactive_threshold=hour)
    await probe.api(f"{CREATE}.S.one", one)
    for limits in (
        {"max_ack_pending": 49},
        {"inactive_threshold": hour - 1},
        {"max_ack_pending": 50, "inactive_threshold": hour},
        {"max_ack_pending": 49, "inactive_threshold": hour},
        {},
    ):
        await probe.api("STREAM.UPDATE.S", S | {"consumer_limits": limits}, label=f"limits {limits}")
    await probe.api("STREAM.INFO.S")


@scenario
async def very_many_consumers(probe: Probe) -> None:
    for name, limit in (("S", -1), ("L", 3)):
        await probe.create({"name": name, "subjects": [name], "max_consumers": limit})
        answers = []
        for number in range(1001 if limit < 0 else 4):
            config = {"name": f"c{number}", "mem_storage": True, "inactive_threshold": 3_600_000_000_000}
            asked = {"stream_name": name, "config": config}
            answers.append(await probe.quietly(f"{CREATE}.{name}.c{number}", asked))
        refused = [number for number, answer in enumerate(answers, 1) if "error" in answer]
        probe.record(f"which of the consumers of {name} are refused", f"{CREATE}.{name}", refused)
