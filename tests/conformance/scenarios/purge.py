"""Purging: everything, up to a sequence, all but the newest, and by subject."""

from typing import Any

from conformance.probe import Probe
from conformance.scenario import scenario

CONFIG: dict[str, Any] = {"name": "P", "subjects": ["p.>"]}


async def purged(probe: Probe, request: dict[str, Any], storage: str = "file") -> None:
    """Purge a stream of ten messages on three subjects and record what is left."""
    await probe.quietly("STREAM.CREATE.P", CONFIG | {"storage": storage})
    for number in range(10):
        await probe.ask(f"p.{'abc'[number % 3]}", b"%d" % number)
    await probe.api("STREAM.PURGE.P", request, label=f"purge {request}")
    await probe.state("P", deleted_details=True, subjects_filter=">")
    await probe.contents("P")
    await probe.quietly("STREAM.DELETE.P")


@scenario
async def a_purge_takes_everything(probe: Probe) -> None:
    await purged(probe, {})
    await purged(probe, {}, "memory")
    await probe.create(CONFIG)
    await probe.api("STREAM.PURGE.P", label="an empty stream")
    await probe.publish("p.a", b"x")
    await probe.api("STREAM.PURGE.P", label="one message")
    await probe.api("STREAM.PURGE.P", label="an emptied stream")
    await probe.state("P")


@scenario
async def a_purge_up_to_a_sequence_leaves_it(probe: Probe) -> None:
    for seq in (0, 1, 2, 5, 10, 11, 12, 50):
        await purged(probe, {"seq": seq})
    await purged(probe, {"seq": 5}, "memory")
    await purged(probe, {"seq": 50}, "memory")


@scenario
async def a_purge_keeps_the_newest(probe: Probe) -> None:
    for keep in (0, 1, 3, 10, 11):
        await purged(probe, {"keep": keep})
    await purged(probe, {"keep": 3}, "memory")


@scenario
async def a_purge_by_subject_takes_the_matching(probe: Probe) -> None:
    for wanted in ("p.a", "p.b", "p.*", "p.>", ">", "p.z", "other", "p..x", "*"):
        await purged(probe, {"filter": wanted})
    await purged(probe, {"filter": "p.b"}, "memory")


@scenario
async def purge_options_combine(probe: Probe) -> None:
    await purged(probe, {"filter": "p.a", "seq": 5})
    await purged(probe, {"filter": "p.a", "seq": 4})
    await purged(probe, {"filter": "p.a", "seq": 99})
    await purged(probe, {"filter": "p.a", "keep": 1})
    await purged(probe, {"filter": "p.*", "keep": 2})
    await purged(probe, {"filter": "p.a", "keep": 99})
    await purged(probe, {"seq": 5, "keep": 2})
    await purged(probe, {"filter": "p.a", "seq": 5, "keep": 2})
    await purged(probe, {"filter": "p.b", "keep": 1}, "memory")


@scenario
async def what_a_purge_can_not_be(probe: Probe) -> None:
    await purged(probe, {"keep": -1})
    await purged(probe, {"seq": "5"})
    await purged(probe, {"wings": 2})
    await probe.create(CONFIG | {"deny_purge": True})
    await probe.publish("p.a", b"x")
    await probe.api("STREAM.PURGE.P", label="denied")
    await probe.api("STREAM.PURGE.P", {"filter": "p.z"}, label="denied for nothing")
    await probe.state("P")


@scenario
async def a_purge_over_holes(probe: Probe) -> None:
    await probe.create(CONFIG)
    for number in range(10):
        await probe.publish(f"p.{'ab'[number % 2]}", b"%d" % number)
    for seq in (3, 4, 7):
        await probe.api("STREAM.MSG.DELETE.P", {"seq": seq})
    await probe.api("STREAM.PURGE.P", {"seq": 4})
    await probe.state("P", deleted_details=True)
    await probe.api("STREAM.PURGE.P", {"filter": "p.b", "keep": 1})
    await probe.state("P", deleted_details=True)
    await probe.api("STREAM.PURGE.P", {"keep": 1})
    await probe.state("P", deleted_details=True)
    await probe.publish("p.a", b"after")
    await probe.contents("P")
