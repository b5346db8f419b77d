"""Counter streams: messages that add to the number their subject holds."""

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def increments_add_up(probe: Probe) -> None:
    await probe.create({"name": "C", "subjects": ["c.>"], "allow_msg_counter": True, "allow_direct": True})
    for value in ("1", "+2", "-5", "0", "+0", "100000000000000000000000000", "-1"):
        await probe.publish("c.a", b"", {"Nats-Incr": value}, label=f"add {value}")
    await probe.publish("c.b", b"", {"Nats-Incr": "7"})
    await probe.contents("C")
    await probe.direct("C.c.a")
    await probe.state("C", subjects_filter=">")


@scenario
async def what_no_increment_is(probe: Probe) -> None:
    await probe.create(
        {"name": "C", "subjects": ["c.>"], "allow_msg_counter": True, "allow_rollup_hdrs": True}
    )
    for value in ("", "x", "1.5", "--1", " 1", "1e3"):
        await probe.publish("c.a", b"", {"Nats-Incr": value}, label=f"add '{value}'")
    await probe.publish("c.a", b"", label="no increment")
    await probe.publish("c.a", b"payload", {"Nats-Incr": "1"}, label="with a payload")
    await probe.publish("c.a", b"", {"Nats-Incr": "1", "Nats-Rollup": "sub"}, label="with a rollup")
    await probe.publish("c.a", b"", {"Nats-Incr": "1", "Nats-Expected-Last-Sequence": "0"}, label="expecting")
    await probe.publish(
        "c.a", b"", {"Nats-Incr": "1", "Nats-Expected-Stream": "C"}, label="expecting a stream"
    )
    await probe.publish("c.a", b"", {"Nats-Incr": "1", "Nats-Msg-Id": "i"}, label="with an id")
    await probe.publish("c.a", b"", {"Nats-Incr": "1", "Nats-Msg-Id": "i"}, label="with the id again")
    await probe.publish("c.a", b"", {"Nats-Incr": "1", "Own": "header"}, label="with a header")
    await probe.contents("C")


@scenario
async def a_counter_keeps_counting_under_limits(probe: Probe) -> None:
    config = {"name": "C", "subjects": ["c.>"], "allow_msg_counter": True, "max_msgs_per_subject": 1}
    await probe.create(config)
    for _ in range(3):
        await probe.publish("c.a", b"", {"Nats-Incr": "2"})
    await probe.contents("C")
    await probe.api("STREAM.PURGE.C", {"filter": "c.a"})
    await probe.publish("c.a", b"", {"Nats-Incr": "2"})
    await probe.update(config | {"allow_msg_counter": False})
