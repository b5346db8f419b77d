"""Counter streams at their limits: sizes, removed messages, odd numbers."""

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def a_total_has_room_or_not(probe: Probe) -> None:
    await probe.create({"name": "C", "subjects": ["c.>"], "allow_msg_counter": True, "max_msg_size": 60})
    await probe.publish("c.a", b"", {"Nats-Incr": "1" + "0" * 20}, label="fits")
    await probe.publish("c.a", b"", {"Nats-Incr": "9" + "0" * 20}, label="does not fit")
    await probe.publish("c.a", b"", {"Nats-Incr": "5"}, label="is as before")
    await probe.contents("C")


@scenario
async def a_total_follows_what_is_left(probe: Probe) -> None:
    await probe.create({"name": "C", "subjects": ["c.>"], "allow_msg_counter": True})
    for value in ("5", "6", "7"):
        await probe.publish("c.a", b"", {"Nats-Incr": value})
    await probe.api("STREAM.MSG.DELETE.C", {"seq": 3})
    await probe.publish("c.a", b"", {"Nats-Incr": "1"}, label="after the last was deleted")
    await probe.api("STREAM.PURGE.C")
    await probe.publish("c.a", b"", {"Nats-Incr": "1"}, label="after all were purged")
    await probe.contents("C")


@scenario
async def odd_numbers(probe: Probe) -> None:
    await probe.create({"name": "C", "subjects": ["c.>"], "allow_msg_counter": True})
    for value in ("007", "+007", "-0", "+", "-", "+-1", "0x10", "1_000", "1 ", "1" * 900):
        await probe.publish("c.a", b"", {"Nats-Incr": value}, label=f"add '{value[:9]}'")
    await probe.publish("c.a", b"", {"nats-incr": "1"}, label="in small letters")
    await probe.contents("C")
    await probe.create({"name": "N", "subjects": ["n.>"]})
    await probe.publish("n.a", b"", {"Nats-Incr": "1"}, label="where they are off")
    await probe.publish("n.a", b"", {"Nats-Incr": "x"}, label="nonsense where they are off")
    await probe.publish("n.a", b"", {"Nats-Incr": ""}, label="nothing where they are off")
