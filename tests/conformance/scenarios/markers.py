"""Delete markers: which messages leave one, and what it says."""

from conformance.probe import Probe
from conformance.scenario import scenario

SECOND = 1_000_000_000
CONFIG = {"name": "T", "subjects": ["t.>"], "allow_msg_ttl": True, "subject_delete_marker_ttl": 90 * SECOND}


@scenario
async def a_purge_of_a_key_leaves_no_marker(probe: Probe) -> None:
    await probe.create(CONFIG | {"max_msgs_per_subject": 1})
    await probe.publish("t.put", b"x", {"Nats-TTL": "1s"})
    await probe.publish("t.purged", b"", {"Nats-TTL": "1s", "KV-Operation": "PURGE", "Nats-Rollup": "sub"})
    await probe.publish("t.deleted", b"", {"Nats-TTL": "1s", "KV-Operation": "DEL"})
    await probe.publish("t.marked", b"", {"Nats-TTL": "1s", "Nats-Marker-Reason": "Purge"})
    await probe.settle("T", lambda state: state["last_seq"] == 6 and state["messages"] == 2)
    await probe.contents("T")


@scenario
async def only_the_last_message_of_a_subject_leaves_a_marker(probe: Probe) -> None:
    await probe.create(CONFIG | {"subject_delete_marker_ttl": SECOND, "max_msgs_per_subject": 3})
    await probe.publish("t.a", b"stays", {"Nats-TTL": "1h"})
    await probe.publish("t.a", b"goes", {"Nats-TTL": "1s"})
    await probe.publish("t.b", b"goes", {"Nats-TTL": "1s"})
    await probe.publish("t.b", b"goes too", {"Nats-TTL": "1s"})
    await probe.settle("T", lambda state: state["last_seq"] == 5 and state["messages"] == 1)
    await probe.contents("T")


@scenario
async def a_marker_is_republished(probe: Probe) -> None:
    await probe.create(
        CONFIG | {"max_msgs_per_subject": 1, "republish": {"src": "t.>", "dest": "republished.>"}}
    )
    async with probe.listening("republished.>") as heard:
        await probe.publish("t.a", b"goes", {"Nats-TTL": "1s"})
        await heard.take(2)


@scenario
async def a_memory_stream_leaves_markers(probe: Probe) -> None:
    await probe.create(CONFIG | {"storage": "memory", "max_age": SECOND})
    await probe.publish("t.a", b"one")
    await probe.publish("t.a", b"two")
    await probe.settle("T", lambda state: state["last_seq"] == 3 and state["messages"] == 1)
    await probe.contents("T")
    await probe.state("T")


@scenario
async def a_marker_gives_way(probe: Probe) -> None:
    await probe.create(CONFIG | {"max_msgs_per_subject": 1})
    await probe.publish("t.a", b"goes", {"Nats-TTL": "1s"})
    await probe.settle("T", lambda state: state["last_seq"] == 2)
    await probe.publish("t.a", b"is back")
    await probe.contents("T")
    await probe.update(CONFIG | {"max_msgs_per_subject": 1, "subject_delete_marker_ttl": 0})
    await probe.publish("t.b", b"goes", {"Nats-TTL": "1s"})
    await probe.settle("T", lambda state: state["messages"] == 1)
    await probe.contents("T")


@scenario
async def times_to_live_where_they_are_off(probe: Probe) -> None:
    await probe.create({"name": "T", "subjects": ["t.>"]})
    for value in ("1s", "never", "0", "00", "x", "", "1ms"):
        await probe.publish("t.a", b"", {"Nats-TTL": value}, label=f"ttl '{value}'")
    await probe.state("T")
