"""Advisories about consumers."""

from conformance.inbox import Used, inbox
from conformance.probe import Probe
from conformance.scenario import scenario

S = {"name": "S", "subjects": ["s.>"]}
SECOND = 1_000_000_000


@scenario
async def a_consumer_s_life_is_announced(probe: Probe) -> None:
    async with probe.listening("$JS.EVENT.ADVISORY.CONSUMER.>") as heard:
        await probe.create(S)
        used = Used(probe, "S", "C")
        await used.create()
        await used.create()
        await used.create(description="changed")
        await probe.api("CONSUMER.DELETE.S.C")
        await used.create(inactive_threshold=SECOND // 4)
        await probe.settle("S", lambda state: state["consumer_count"] == 0)
        await heard.take(4)
        await used.create("for the stream")
        await heard.take(1, "created")
        await probe.api("STREAM.DELETE.S")
        await heard.take(1, "nothing of the stream's consumers", within=0.3)


@scenario
async def a_waiting_client_gets_the_end(probe: Probe) -> None:
    await probe.create(S)
    used = Used(probe, "S", "C")
    await used.create()
    async with inbox(probe) as box:
        await used.pull(box, {"batch": 3, "expires": 20 * SECOND, "max_bytes": 1000})
        await used.settle(num_waiting=1)
        await probe.api("STREAM.DELETE.S")
        await box.take(1, "advisory")
