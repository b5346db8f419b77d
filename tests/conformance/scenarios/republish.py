"""Republishing: a stored message is sent to subscribers."""

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def a_stored_message_is_republished_with_its_place(probe: Probe) -> None:
    config = {"name": "R", "subjects": ["r.>"], "republish": {"src": "r.>", "dest": "copy.>"}}
    await probe.create(config)
    async with probe.listening("copy.>") as heard:
        await probe.publish("r.a", b"one")
        await probe.publish("r.b", b"two", {"Own": "header"})
        await probe.publish("r.a", b"three")
        await probe.publish("r.a", b"refused", {"Nats-Expected-Last-Sequence": "99"})
        await probe.publish("r.b", b"four", {"Nats-Msg-Id": "1"})
        await probe.publish("r.b", b"duplicate", {"Nats-Msg-Id": "1"})
        await probe.publish("r.c.d", b"five", {"Nats-Sequence": "77", "Nats-Stream": "FAKE"})
        await heard.take(5)


@scenario
async def only_what_matches_is_republished(probe: Probe) -> None:
    config = {"name": "R", "subjects": ["r.>"], "republish": {"src": "r.*.x", "dest": "copy.{{wildcard(1)}}"}}
    await probe.create(config)
    async with probe.listening("copy.>") as heard:
        await probe.publish("r.a", b"no")
        await probe.publish("r.a.x", b"yes")
        await probe.publish("r.b.y", b"no")
        await probe.publish("r.b.x", b"yes too")
        await heard.take(2)


@scenario
async def headers_alone_are_republished(probe: Probe) -> None:
    republish = {"dest": "copy.>", "headers_only": True}
    await probe.create({"name": "R", "subjects": ["r.>"], "republish": republish})
    async with probe.listening("copy.>") as heard:
        await probe.publish("r.a", b"12345")
        await probe.publish("r.a", b"", {"Own": "header"})
        await heard.take(2)
    await probe.update({"name": "R", "subjects": ["r.>"]})
    async with probe.listening("copy.>") as heard:
        await probe.publish("r.a", b"unheard")
        await probe.update({"name": "R", "subjects": ["r.>"], "republish": {"dest": "copy.>"}})
        await probe.publish("r.a", b"heard")
        await heard.take(1)
