"""What an atomic batch may contain, how it is checked as a whole, and its outcome."""

from conformance.probe import Probe
from conformance.scenario import scenario
from conformance.scenarios.batches import batch

SECOND = 1_000_000_000


async def commit(probe: Probe, id: str, *messages: tuple[str, dict[str, str]], data: bytes = b"x") -> None:
    """Publish a batch whose last message commits it, and record every answer."""
    for seq, (subject, headers) in enumerate(messages, 1):
        body = b"" if "Nats-Incr" in headers else data
        sent = batch(id, seq, "1" if seq == len(messages) else None) | headers
        await probe.publish(subject, body, sent, label=f"batch {id}, {seq}")


@scenario
async def a_batch_may_count(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True, "allow_msg_counter": True})
    await probe.publish("b.a", b"", {"Nats-Incr": "5"})
    add = {"Nats-Incr": "10"}
    await commit(probe, "adds", ("b.a", add), ("b.b", add), ("b.a", {"Nats-Incr": "-1"}))
    await commit(probe, "adds nothing", ("b.a", add), ("b.a", {}))
    await commit(probe, "adds nonsense", ("b.a", add), ("b.a", {"Nats-Incr": "x"}))
    await probe.publish("b.a", b"", {"Nats-Incr": "1"})
    await probe.publish("b.b", b"", {"Nats-Incr": "1"})
    await probe.contents("B")


@scenario
async def a_batch_may_carry_ttls(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True, "allow_msg_ttl": True})
    await commit(probe, "lives", ("b.a", {"Nats-TTL": "1h"}), ("b.b", {"Nats-TTL": "never"}))
    await commit(probe, "wrong", ("b.a", {"Nats-TTL": "1h"}), ("b.b", {"Nats-TTL": "x"}))
    await commit(probe, "short", ("b.c", {"Nats-TTL": "1s"}), ("b.d", {}))
    await probe.settle("B", lambda state: state["messages"] == 3)
    await probe.contents("B")
    await probe.create({"name": "C", "subjects": ["c.>"], "allow_atomic": True})
    await commit(probe, "off", ("c.a", {"Nats-TTL": "1h"}), ("c.b", {}))
    await commit(probe, "off and wrong", ("c.a", {"Nats-TTL": "x"}), ("c.b", {}))
    await probe.state("C")


@scenario
async def a_batch_may_schedule(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True, "allow_msg_schedules": True})
    # nats-server takes a time after 2262 for one in the past.
    later = {"Nats-Schedule": "@at 2199-01-01T00:00:00Z", "Nats-Schedule-Target": "b.out"}
    past = {"Nats-Schedule": "@at 2001-01-01T00:00:00Z", "Nats-Schedule-Target": "b.out"}
    cancel = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "b.in"}
    await commit(probe, "twice", ("b.in", later), ("b.in", later))
    await commit(probe, "ok", ("b.other", {}), ("b.in", later))
    await commit(probe, "nonsense", ("b.x", {}), ("b.in", later | {"Nats-Schedule": "soon"}))
    await commit(probe, "cancels what it stores", ("b.in", {}), ("b.done", cancel))
    await commit(probe, "cancels", ("b.x", {}), ("b.done", cancel))
    await commit(probe, "at once", ("b.y", {}), ("b.in", past))
    await probe.settle("B", lambda state: state["last_seq"] == 7)
    await probe.contents("B")


@scenario
async def a_batch_is_transformed(probe: Probe) -> None:
    transform = {"src": "b.*", "dest": "t.{{wildcard(1)}}"}
    config = {"name": "B", "subjects": ["b.>"], "allow_atomic": True, "subject_transform": transform}
    await probe.create(config)
    await probe.publish("b.a", b"first")
    expects = {
        "Nats-Expected-Last-Subject-Sequence": "1",
        "Nats-Expected-Last-Subject-Sequence-Subject": "t.a",
    }
    await commit(probe, "ok", ("b.a", expects), ("b.b", {}))
    await commit(probe, "again", ("b.b", {}), ("b.a", expects))
    await probe.contents("B")


@scenario
async def a_batch_replaces(probe: Probe) -> None:
    config = {"name": "B", "subjects": ["b.>"], "allow_atomic": True, "allow_rollup_hdrs": True}
    await probe.create(config)
    for subject in ("b.a", "b.a", "b.b"):
        await probe.publish(subject, b"old")
    await commit(probe, "late sub", ("b.a", {}), ("b.a", {"Nats-Rollup": "sub"}))
    await commit(probe, "late all", ("b.a", {}), ("b.c", {"Nats-Rollup": "all"}))
    await commit(probe, "nonsense", ("b.a", {"Nats-Rollup": "some"}), ("b.c", {}))
    await commit(probe, "sub", ("b.a", {"Nats-Rollup": "sub"}), ("b.a", {}), ("b.b", {"Nats-Rollup": "SUB"}))
    await probe.contents("B")
    await commit(probe, "all", ("b.a", {"Nats-Rollup": "all"}), ("b.b", {}))
    await probe.contents("B")
    await probe.state("B")


@scenario
async def a_batch_replaces_by_limits(probe: Probe) -> None:
    config = {"name": "B", "subjects": ["b.>"], "allow_atomic": True, "max_msgs_per_subject": 2}
    await probe.create(config)
    await commit(probe, "five", *[("b.a", {})] * 3, *[("b.b", {})] * 2)
    await probe.state("B", deleted_details=True)
    await probe.contents("B")
    await probe.update(config | {"discard": "new", "discard_new_per_subject": True})
    await commit(probe, "full", ("b.c", {}), ("b.a", {}))
    await commit(probe, "fills up", ("b.c", {}), ("b.c", {}), ("b.c", {}))
    await commit(probe, "fits", ("b.c", {}), ("b.c", {}))
    await probe.state("B")
    await probe.update(config | {"max_bytes": 900, "discard": "new"})
    await commit(probe, "too many bytes", ("b.x", {}), ("b.y", {}), data=b"x" * 300)
    await probe.state("B")


@scenario
async def a_batch_is_expected_right(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True})
    await probe.publish("b.a", b"first")
    subject, other = "Nats-Expected-Last-Subject-Sequence", "Nats-Expected-Last-Subject-Sequence-Subject"
    last = "Nats-Expected-Last-Sequence"
    await commit(probe, "other stream", ("b.a", {"Nats-Expected-Stream": "X"}), ("b.b", {}))
    await commit(probe, "this stream", ("b.z", {"Nats-Expected-Stream": "B"}), ("b.z", {}))
    await commit(
        probe, "by pattern", ("b.b", {subject: "3", other: "b.>"}), ("b.c", {subject: "1", other: "b.a"})
    )
    await commit(probe, "wrong pattern", ("b.b", {subject: "4", other: "b.>"}), ("b.c", {}))
    await commit(probe, "no number", ("b.b", {other: "b.>"}), ("b.c", {}))
    await commit(probe, "twice", ("b.d", {subject: "1", other: "b.a"}), ("b.e", {subject: "1", other: "b.a"}))
    await commit(probe, "as it would be", ("b.f", {}), ("b.g", {last: "8"}))
    await commit(probe, "as it is", ("b.f", {}), ("b.g", {last: "7"}))
    await commit(probe, "nonsense", ("b.f", {last: "x"}), ("b.g", {}))
    await commit(probe, "from another stream", ("b.f", {"Nats-Stream-Source": "x"}), ("b.g", {}))
    await commit(probe, "an increment", ("b.f", {"Nats-Incr": "1"}), ("b.g", {}))
    await probe.contents("B")


@scenario
async def a_batch_is_republished(probe: Probe) -> None:
    config = {"name": "B", "subjects": ["b.>"], "allow_atomic": True}
    await probe.create(config | {"republish": {"src": "b.>", "dest": "again.b.>"}})
    async with probe.listening("again.>") as heard:
        await probe.publish("b.a", b"first")
        await commit(probe, "two", ("b.a", {}), ("b.a", {}))
        await heard.take(3)


@scenario
async def abandoned_batches_are_reported(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True})
    async with probe.listening("$JS.EVENT.ADVISORY.STREAM.BATCH_ABANDONED.B") as heard:
        await probe.publish("b.a", b"", batch("gap", 1))
        await probe.publish("b.a", b"", batch("gap", 3))
        await probe.publish("b.a", b"", batch("level", 1, Nats_Required_Api_Level="99"))
        await probe.publish("b.a", b"", batch("known level", 1, "1", Nats_Required_Api_Level="1"))
        await probe.publish("b.a", b"", batch("empty", 1, "eob"))
        await heard.take(3)
        await probe.publish("b.a", b"", batch("idle", 1))
        await heard.take(1, within=20)
        await probe.publish("b.a", b"", batch("idle", 2, "1"))
    await probe.contents("B")


@scenario
async def only_so_many_batches_are_open(probe: Probe) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "allow_atomic": True})
    for number in range(50):
        await probe.ask("b.a", b"", batch(f"open {number}", 1))
    await probe.publish("b.a", b"", batch("one more", 1))
    await probe.publish("b.a", b"", batch("open 7", 2, "1"))
    await probe.publish("b.a", b"", batch("one more", 1))
    await probe.state("B")


@scenario
async def a_batch_ends_with_the_option(probe: Probe) -> None:
    config = {"name": "B", "subjects": ["b.>"], "allow_atomic": True}
    await probe.create(config)
    await probe.publish("b.a", b"", batch("open", 1))
    await probe.update(config | {"allow_atomic": False})
    await probe.publish("b.a", b"", batch("open", 2, "1"))
    await probe.update(config)
    await probe.publish("b.a", b"", batch("open", 2, "1"))
    await probe.update(config | {"no_ack": True})
    await probe.send("b.a", b"", batch("quiet", 1))
    await probe.send("b.a", b"", batch("quiet", 2, "1"))
    await probe.settle("B", lambda state: state["messages"] == 2)
    await probe.update(config | {"sealed": True})
    await probe.publish("b.a", b"", batch("sealed", 1))
