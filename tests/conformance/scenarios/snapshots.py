"""Snapshots: what a server sends, the same server restores."""

from typing import Any

from conformance.probe import ANSWER_WITHIN_S, Probe
from conformance.scenario import scenario


async def snapshot(probe: Probe, stream: str, **request: Any) -> tuple[dict[str, Any], list[bytes]]:
    """Take a snapshot, acknowledging each chunk; what the chunks hold is the server's own affair."""
    inbox = probe.nc.new_inbox()
    subscription = await probe.nc.subscribe(inbox)
    body = {"deliver_subject": inbox} | request
    answer = await probe.quietly(f"STREAM.SNAPSHOT.{stream}", body)
    probe.record(f"snapshot of {stream}", f"$JS.API.STREAM.SNAPSHOT.{stream} {request}", answer)
    chunks: list[bytes] = []
    while "error" not in answer:
        msg = await subscription.next_msg(ANSWER_WITHIN_S)
        if not msg.data:
            # A snapshot of one chunk ends with no status at all, and how many there are is not compared.
            probe.record(f"end of the snapshot of {stream}", "", (msg.headers or {}).get("Status", "204"))
            break
        if msg.reply:
            await msg.respond(b"")
        chunks.append(msg.data)
    await subscription.unsubscribe()
    return answer, chunks


async def restore(probe: Probe, stream: str, config: Any, state: Any, chunks: list[bytes]) -> None:
    """Send a snapshot back, and record how the restore began and ended."""
    answer = await probe.quietly(f"STREAM.RESTORE.{stream}", {"config": config, "state": state})
    shown = answer | ({"deliver_subject": "<subject>"} if "deliver_subject" in answer else {})
    probe.record(f"restore of {stream}", f"$JS.API.STREAM.RESTORE.{stream}", shown)
    if "error" in answer:
        return
    for chunk in chunks:
        await probe.ask(answer["deliver_subject"], chunk)
    await probe.publish(answer["deliver_subject"], b"", label=f"end of the restore of {stream}")


@scenario
async def a_restored_stream_holds_what_it_held(probe: Probe) -> None:
    config = {
        "name": "S",
        "subjects": ["s.>"],
        "max_msgs": 50,
        "metadata": {"own": "kept"},
        "allow_direct": True,
    }
    await probe.create(config)
    for number in range(60):
        await probe.ask(f"s.{number % 5}", b"%d" % number * 500, {"N": f"{number}"})
    for seq in (20, 21, 40):
        await probe.api("STREAM.MSG.DELETE.S", {"seq": seq})
    await probe.state("S", subjects_filter=">", deleted_details=True)
    answer, chunks = await snapshot(probe, "S")
    await restore(probe, "S", answer.get("config"), answer.get("state"), chunks)
    await probe.api("STREAM.DELETE.S")
    await restore(probe, "S", answer.get("config"), answer.get("state"), chunks)
    await probe.state("S", subjects_filter=">", deleted_details=True)
    await probe.contents("S")
    await probe.publish("s.0", b"goes on")
    await probe.api("STREAM.INFO.S")


@scenario
async def an_empty_stream_can_be_restored(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s"]})
    await probe.fill("s", b"x", b"x")
    await probe.api("STREAM.PURGE.S")
    answer, chunks = await snapshot(probe, "S", chunk_size=1024, no_consumers=True)
    await probe.api("STREAM.DELETE.S")
    await restore(probe, "S", answer.get("config"), answer.get("state"), chunks)
    await probe.state("S")
    await probe.publish("s", b"goes on")


@scenario
async def what_is_no_snapshot_is_refused(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s"]})
    await probe.api("STREAM.SNAPSHOT.S", b"", label="snapshot of nothing")
    await probe.api("STREAM.SNAPSHOT.S", {}, label="snapshot to nowhere")
    await probe.api("STREAM.SNAPSHOT.S", {"deliver_subject": "a.*"}, label="snapshot to a wildcard")
    await probe.api("STREAM.SNAPSHOT.S", b"{", label="torn snapshot")
    await probe.api("STREAM.RESTORE.S", b"", label="restore of nothing")
    await probe.api("STREAM.RESTORE.S", b"{", label="torn restore")
    await probe.api(
        "STREAM.RESTORE.S", {"config": {"name": "OTHER"}, "state": {}}, label="restore of another"
    )
    await probe.api("STREAM.RESTORE.S", {"config": {"name": "S"}, "state": {}}, label="restore over a stream")
    await probe.api("STREAM.DELETE.S")
    answer = await probe.quietly(
        "STREAM.RESTORE.S", {"config": {"name": "S", "subjects": ["s"]}, "state": {}}
    )
    if "deliver_subject" in answer:
        await probe.ask(answer["deliver_subject"], b"no snapshot at all")
        await probe.publish(answer["deliver_subject"], b"", label="restore of nonsense")
    await probe.api("STREAM.INFO.S")


@scenario
async def consumers_come_back_as_they_stood(probe: Probe) -> None:
    hour = 3_600_000_000_000
    config = {"name": "S", "subjects": ["s.>"]}
    await probe.create(config)
    await probe.fill("s.1", *[b"%d" % n for n in range(10)])
    for consumer in (
        {"durable_name": "pull", "ack_policy": "explicit", "ack_wait": hour, "max_deliver": 5},
        {"durable_name": "none", "ack_policy": "none", "filter_subject": "s.2"},
        {"durable_name": "memory", "ack_policy": "explicit", "mem_storage": True},
        {"name": "ephemeral", "ack_policy": "all", "inactive_threshold": hour, "metadata": {"own": "kept"}},
    ):
        name = consumer.get("durable_name") or consumer["name"]
        await probe.api(f"CONSUMER.CREATE.S.{name}", {"stream_name": "S", "config": consumer})
    js = probe.nc.jetstream()
    pulling = await js.pull_subscribe_bind("pull", stream="S")
    for msg in await pulling.fetch(6, timeout=ANSWER_WITHIN_S):
        if msg.metadata.sequence.stream in (1, 2, 5):
            await msg.ack_sync()
    await probe.api("CONSUMER.INFO.S.pull")
    answer, chunks = await snapshot(probe, "S")
    await probe.api("STREAM.DELETE.S")
    await restore(probe, "S", answer.get("config"), answer.get("state"), chunks)
    await probe.api("CONSUMER.NAMES.S")
    for name in ("pull", "none", "memory", "ephemeral"):
        await probe.api(f"CONSUMER.INFO.S.{name}", label=f"restored {name}")
    await probe.api("STREAM.DELETE.S")
    await probe.create(config)
    await probe.api("CONSUMER.NAMES.S", label="a stream made again has no consumers")


@scenario
async def consumers_stay_behind_if_asked_for(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s"]})
    await probe.fill("s", b"x")
    await probe.api(
        "CONSUMER.CREATE.S.c",
        {"stream_name": "S", "config": {"durable_name": "c", "ack_policy": "explicit"}},
    )
    answer, chunks = await snapshot(probe, "S", no_consumers=True)
    await probe.api("STREAM.DELETE.S")
    await restore(probe, "S", answer.get("config"), answer.get("state"), chunks)
    await probe.api("CONSUMER.NAMES.S")
