"""Advisories: events that the server publishes about its streams."""

import asyncio

from conformance.probe import POLL_EVERY_S, SETTLE_WITHIN_S, Probe
from conformance.scenario import scenario


@scenario
async def a_stream_s_life_is_announced(probe: Probe) -> None:
    async with probe.listening("$JS.EVENT.ADVISORY.STREAM.>") as heard:
        await probe.create({"name": "A", "subjects": ["a"]})
        await probe.create({"name": "A", "subjects": ["a"]})
        await probe.update({"name": "A", "subjects": ["a", "b"]})
        await probe.update({"name": "A", "subjects": ["a"], "storage": "memory"})
        await probe.publish("a", b"x")
        await probe.api("STREAM.PURGE.A")
        await probe.api("STREAM.DELETE.A")
        await heard.take(3, within=3)


@scenario
async def a_request_is_audited(probe: Probe) -> None:
    async with probe.listening("$JS.EVENT.ADVISORY.API") as heard:
        await probe.api("STREAM.NAMES")
        await probe.api("STREAM.INFO.NONE")
        for audit in await heard.take(2, within=3):
            if isinstance(audit, dict):
                probe.record("audited fields", "SUB $JS.EVENT.ADVISORY.API", sorted(audit))


@scenario
async def an_advisory_can_be_stored(probe: Probe) -> None:
    await probe.create({"name": "ADV", "subjects": ["$JS.EVENT.ADVISORY.STREAM.CREATED.>"]})
    await probe.create({"name": "OTHER"})
    async with asyncio.timeout(SETTLE_WITHIN_S):
        while (await probe.quietly("STREAM.INFO.ADV"))["state"]["messages"] < 2:
            await asyncio.sleep(POLL_EVERY_S)
    stored = await probe.quietly("STREAM.INFO.ADV", {"subjects_filter": ">"})
    # Not its bytes: the time inside an advisory has no fixed length.
    probe.record("stored advisories", "$JS.API.STREAM.INFO.ADV", stored["state"]["subjects"])
