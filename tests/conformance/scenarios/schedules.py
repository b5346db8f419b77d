"""Scheduled messages: a publish that happens later, or again and again."""

from conformance.probe import Probe
from conformance.scenario import scenario


def schedule(spec: str, target: str = "s.out", **more: str) -> dict[str, str]:
    """Return the headers of a schedule."""
    headers = {"Nats-Schedule": spec, "Nats-Schedule-Target": target}
    return headers | {"Nats-" + key.replace("_", "-"): value for key, value in more.items()}


@scenario
async def schedules_are_checked(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_msg_ttl": True})
    for spec in ("@every 1h", "@hourly", "0 0 5 * * *", "@at 2999-01-01T00:00:00Z", "", "soon", "@every 1ms"):
        await probe.publish("s.in", b"x", schedule(spec), label=f"schedule '{spec}'")
    await probe.publish("s.in", b"x", {"Nats-Schedule": "@hourly"}, label="no target")
    for target in ("s.in", "s.*", "other", "s..x", ""):
        await probe.publish("s.in", b"x", schedule("@hourly", target), label=f"target '{target}'")
    await probe.publish("s.in", b"x", schedule("@hourly", Schedule_TTL="1m"), label="with a ttl")
    await probe.publish("s.in", b"x", schedule("@hourly", Schedule_TTL="x"), label="with a bad ttl")
    await probe.publish("s.in", b"x", schedule("@hourly", Schedule_Source="s.from"), label="with a source")
    await probe.publish("s.in", b"x", schedule("@hourly", Schedule_Source="s.*"), label="with a bad source")
    await probe.publish(
        "s.in", b"x", schedule("@hourly", Schedule_Time_Zone="Europe/Vienna"), label="in a zone"
    )
    await probe.publish("s.in", b"x", schedule("@hourly", Schedule_Time_Zone="Nowhere"), label="in no zone")
    await probe.state("S", subjects_filter=">")


@scenario
async def a_message_is_published_at_its_time(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True})
    await probe.publish("s.in", b"now", schedule("@at 2001-01-01T00:00:00Z", Own="x"))
    await probe.settle("S", lambda state: state["last_seq"] == 2 and state["messages"] == 1)
    await probe.contents("S")
