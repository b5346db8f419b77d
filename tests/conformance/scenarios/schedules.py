"""Scheduled messages: a publish that happens later, or again and again."""

from conformance.probe import Probe, opened
from conformance.scenario import scenario


def schedule(spec: str, target: str = "s.out", **more: str) -> dict[str, str]:
    """Return the headers of a schedule."""
    headers = {"Nats-Schedule": spec, "Nats-Schedule-Target": target}
    return headers | {"Nats-" + key.replace("_", "-"): value for key, value in more.items()}


@scenario
async def schedules_are_checked(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_msg_ttl": True})
    for spec in ("@every 1h", "@hourly", "0 0 5 * * *", "@at 2199-01-01T00:00:00Z", "", "soon", "@every 1ms"):
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


@scenario
async def a_message_is_published_again_and_again(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True})
    await probe.publish("s.in", b"tick", schedule("@every 1s"))
    await probe.settle("S", lambda state: state["messages"] >= 3)
    shown = await probe.quietly("STREAM.MSG.GET.S", {"last_by_subj": "s.in"})
    probe.record("the schedule", "$JS.API.STREAM.MSG.GET.S", opened(shown["message"]) | {"seq": "<seq>"})
    shown = await probe.quietly("STREAM.MSG.GET.S", {"last_by_subj": "s.out"})
    probe.record("the tick", "$JS.API.STREAM.MSG.GET.S", opened(shown["message"]) | {"seq": "<seq>"})


@scenario
async def a_schedule_may_publish_another_subject_s_last(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_msg_ttl": True})
    await probe.publish("s.from", b"copied", {"Own": "header"})
    more = {"Schedule_Source": "s.from", "Schedule_TTL": "1h"}
    await probe.publish("s.in", b"not this", schedule("@at 2001-01-01T00:00:00Z", **more))
    await probe.settle("S", lambda state: state["last_seq"] == 3 and state["messages"] == 2)
    await probe.contents("S")


@scenario
async def a_schedule_is_replaced_and_cancelled(probe: Probe) -> None:
    await probe.create(
        {"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_rollup_hdrs": True}
    )
    later = schedule("@at 2199-01-01T00:00:00Z")
    await probe.publish("s.in", b"one", later)
    await probe.publish("s.in", b"two", later)
    await probe.contents("S")
    cancel = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.in"}
    await probe.publish("s.in", b"", cancel, label="cancel on its own subject")
    await probe.publish("s.done", b"cancelled", {"Nats-Schedule-Next": "purge"}, label="cancel nothing named")
    await probe.publish("s.done", b"cancelled", cancel, label="cancel")
    await probe.contents("S")


@scenario
async def schedules_are_refused_where_they_are_off(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"]})
    await probe.publish("s.in", b"x", schedule("@hourly"))
    await probe.publish("s.in", b"x", schedule("nonsense"))
    await probe.publish("s.in", b"x", {"Nats-Schedule-Next": "purge", "Nats-Scheduler": "s.other"})
    await probe.contents("S")
