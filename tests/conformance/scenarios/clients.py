"""Consumers as nats-py uses them: fetched, pushed, in order, watched, and as objects."""

import asyncio
from typing import Any

from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, KeyValueConfig, ObjectStoreConfig

from conformance.probe import ANSWER_WITHIN_S, Probe, text
from conformance.scenario import scenario

S = {"name": "S", "subjects": ["s.>"]}


def seen(msg: Msg) -> dict[str, Any]:
    """Return what the client knows about a delivered message; it generates the names of ordered consumers."""
    found = msg.metadata
    return {
        "subject": msg.subject,
        "data": text(msg.data),
        "sequence": [found.sequence.consumer, found.sequence.stream],
        "delivered": found.num_delivered,
        "pending": found.num_pending,
    }


async def ten(probe: Probe) -> None:
    """Make the stream with ten messages."""
    await probe.create(S)
    for number in range(1, 11):
        await probe.publish("s.odd" if number % 2 else "s.even", b"%d" % number, label="publish")


@scenario
async def messages_are_fetched(probe: Probe) -> None:
    await ten(probe)
    sub = await probe.js.pull_subscribe("s.>", "d")
    for batch in (3, 1, 5):
        messages = await sub.fetch(batch, ANSWER_WITHIN_S)
        probe.record("fetched", f"fetch({batch})", [seen(msg) for msg in messages])
        for msg in messages:
            await msg.ack_sync()
    rest = await sub.fetch(5, 1)
    probe.record("the rest", "fetch(5)", [seen(msg) for msg in rest])
    await probe.call("nothing", sub.fetch(1, 0.5))
    await rest[0].nak()
    again = await sub.fetch(1, ANSWER_WITHIN_S, heartbeat=1)
    probe.record("again", "fetch(1)", [seen(msg) for msg in again])
    await probe.ask(again[0].reply, b"+TERM")
    info = await sub.consumer_info()
    counts = [info.num_pending, info.num_ack_pending, info.num_redelivered]
    probe.record("info", "consumer_info()", counts)


@scenario
async def messages_are_pushed(probe: Probe) -> None:
    await ten(probe)
    config = ConsumerConfig(flow_control=True, idle_heartbeat=1)
    sub = await probe.js.subscribe("s.odd", durable="p", config=config, manual_ack=True)
    messages = [await sub.next_msg(ANSWER_WITHIN_S) for _ in range(5)]
    probe.record("pushed", "subscribe", [seen(msg) for msg in messages])
    for msg in messages:
        await msg.ack_sync()
    info = await sub.consumer_info()
    probe.record("info", "consumer_info()", [info.num_pending, info.num_ack_pending, info.push_bound])
    await sub.unsubscribe()


@scenario
async def a_group_shares_a_durable(probe: Probe) -> None:
    await ten(probe)
    heard: list[str] = []

    async def hear(msg: Msg) -> None:
        heard.append(text(msg.data))
        await msg.ack()

    subs = [await probe.js.subscribe("s.>", "workers", cb=hear, manual_ack=True) for _ in range(2)]
    async with asyncio.timeout(ANSWER_WITHIN_S):
        while len(heard) < 10:
            await asyncio.sleep(0.02)
    probe.record("shared", "subscribe", sorted(heard))
    for sub in subs:
        await sub.unsubscribe()


@scenario
async def messages_come_in_order(probe: Probe) -> None:
    await ten(probe)
    sub = await probe.js.subscribe("s.even", ordered_consumer=True)
    messages = [await sub.next_msg(ANSWER_WITHIN_S) for _ in range(5)]
    await probe.publish("s.even", b"live")
    messages.append(await sub.next_msg(ANSWER_WITHIN_S))
    probe.record("in order", "subscribe", [seen(msg) for msg in messages])
    await sub.unsubscribe()


@scenario
async def keys_are_watched(probe: Probe) -> None:
    kv = await probe.js.create_key_value(KeyValueConfig(bucket="W", history=5))
    for key, value in (("a", b"1"), ("b", b"2"), ("a", b"3")):
        await kv.put(key, value)
    await kv.delete("b")
    await probe.call("keys", kv.keys())
    await probe.call("history", kv.history("a"))
    watcher: Any = await kv.watchall()
    seen_entries: list[Any] = []
    while (entry := await watcher.updates(ANSWER_WITHIN_S)) is not None:
        seen_entries.append([entry.key, entry.value, entry.revision, entry.operation, entry.delta])
    await kv.put("c", b"4")
    await kv.purge("a")
    for _ in range(2):
        entry = await watcher.updates(ANSWER_WITHIN_S)
        assert entry is not None
        seen_entries.append([entry.key, entry.value, entry.revision, entry.operation])
    probe.record("watched", "watchall", [list(map(str, entry)) for entry in seen_entries])
    await watcher.stop()


@scenario
async def objects_are_kept_in_chunks(probe: Probe) -> None:
    store = await probe.js.create_object_store("O", ObjectStoreConfig(description="things"))
    for name, data in (("small", b"hello"), ("large", b"0123456789" * 40_000)):
        info = await store.put(name, data)
        probe.record("put", name, [info.name, info.size, info.chunks, info.digest])
        found = await store.get(name)
        probe.record("got", name, [len(found.data or b""), found.info.digest])
    listed = await store.list()
    probe.record("listed", "list", sorted(entry.name for entry in listed))
    await store.delete("small")
    await probe.call("get the deleted", store.get("small"))
    await probe.state("OBJ_O")
