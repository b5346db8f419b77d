"""Rollups: a message that replaces the ones before it."""

from conformance.probe import Probe
from conformance.scenario import scenario


@scenario
async def a_rollup_replaces_what_came_before(probe: Probe) -> None:
    await probe.create({"name": "R", "subjects": ["r.>"], "allow_rollup_hdrs": True})
    for subject in ("r.a", "r.b", "r.a", "r.b", "r.a"):
        await probe.publish(subject, b"x")
    await probe.publish("r.a", b"sum", {"Nats-Rollup": "sub"})
    await probe.state("R", subjects_filter=">", deleted_details=True)
    await probe.contents("R")
    await probe.publish("r.b", b"of all", {"Nats-Rollup": "all"})
    await probe.state("R", subjects_filter=">", deleted_details=True)
    await probe.contents("R")
    await probe.publish("r.new", b"nothing before", {"Nats-Rollup": "sub"})
    await probe.state("R", subjects_filter=">")


@scenario
async def what_no_rollup_is(probe: Probe) -> None:
    await probe.create({"name": "R", "subjects": ["r.>"], "allow_rollup_hdrs": True})
    await probe.publish("r.a", b"x")
    for value in ("SUB", "All", "none", "", "subject"):
        await probe.publish("r.a", b"x", {"Nats-Rollup": value}, label=f"rollup '{value}'")
    await probe.create({"name": "OFF", "subjects": ["off"]})
    await probe.publish("off", b"x", {"Nats-Rollup": "sub"})
    await probe.publish("off", b"x", {"Nats-Rollup": "nonsense"})
    await probe.state("R")
    await probe.state("OFF")


@scenario
async def a_rollup_meets_the_other_rules(probe: Probe) -> None:
    config = {"name": "R", "subjects": ["r.>"], "allow_rollup_hdrs": True, "max_msgs": 3}
    await probe.create(config | {"discard": "new"})
    for subject in ("r.a", "r.a", "r.b"):
        await probe.publish(subject, b"x", {"Nats-Msg-Id": subject})
    await probe.publish("r.a", b"full", {"Nats-Rollup": "sub"})
    await probe.state("R")
    await probe.publish("r.a", b"dup", {"Nats-Rollup": "all", "Nats-Msg-Id": "r.a"})
    await probe.publish("r.a", b"wrong", {"Nats-Rollup": "all", "Nats-Expected-Last-Sequence": "99"})
    await probe.publish("r.a", b"right", {"Nats-Rollup": "sub", "Nats-Expected-Last-Subject-Sequence": "1"})
    await probe.contents("R")
    await probe.update(config)
    await probe.publish("r.b", b"all", {"Nats-Rollup": "all"})
    await probe.contents("R")
    await probe.create({"name": "MEM", "subjects": ["m.>"], "allow_rollup_hdrs": True, "storage": "memory"})
    for subject in ("m.a", "m.b", "m.a"):
        await probe.publish(subject, b"x")
    await probe.publish("m.a", b"sum", {"Nats-Rollup": "sub"})
    await probe.state("MEM", deleted_details=True)


@scenario
async def a_rollup_of_a_subject_with_wildcards_replaces_all_that_match(probe: Probe) -> None:
    for name, more in (("F", {}), ("M", {"storage": "memory"}), ("K", {"max_msgs_per_subject": 5})):
        await probe.create({"name": name, "subjects": [f"{name}.>"], "allow_rollup_hdrs": True, **more})
        for subject in ("a.1", "a.2", "b.1", "a.1", "a.1.x", "c"):
            await probe.publish(f"{name}.{subject}", b"x")
        await probe.publish(f"{name}.a.*", b"sum", {"Nats-Rollup": "sub"})
        await probe.state(name, subjects_filter=">", deleted_details=True)
        await probe.contents(name)
        await probe.publish(f"{name}.a.*", b"again", {"Nats-Rollup": "sub"})
        await probe.contents(name)
        await probe.publish(f"{name}.>", b"everything", {"Nats-Rollup": "sub"})
        await probe.state(name, subjects_filter=">", deleted_details=True)
        await probe.contents(name)
