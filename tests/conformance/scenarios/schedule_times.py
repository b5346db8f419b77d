"""Which times a schedule may name, and what it publishes at those times."""

import re

from conformance.probe import Probe, opened
from conformance.scenario import scenario
from conformance.scenarios.schedules import schedule

PATTERNS = (
    "* * * * * *",
    "*/5 * * * * *",
    "0 0 0 1 1 *",
    "0 0 0 29 2 *",
    "0 0 0 30 2 *",
    "0 0 0 31 4,6,9,11 *",
    "0 0 0 31 4,6,9,11 mon",
    "1-5 1-10/2 3/4 ? jan-mar SUN",
    "59 59 23 31 12 6",
    "60 0 0 1 1 *",
    "0 0 24 1 1 *",
    "0 0 0 0 1 *",
    "0 0 0 1 13 *",
    "0 0 0 1 1 7",
    "5-1 0 0 1 1 *",
    "*/0 0 0 1 1 *",
    "*-5 0 0 1 1 *",
    "1-2-3 0 0 1 1 *",
    "1/2/3 0 0 1 1 *",
    "+1 0 0 1 1 *",
    "-1 0 0 1 1 *",
    ", 0 0 1 1 *",
    "1,,2 0 0 1 1 *",
    "1, 0 0 1 1 *",
    "x 0 0 1 1 *",
    "0 0 0 1 feb *",
    "0 0 0 1 february *",
    "0 0 0 1 1",
    "0 0 0 1 1 * *",
    "  0   0 0 1\t1 *  ",
    "@yearly",
    "@annually",
    "@monthly",
    "@weekly",
    "@daily",
    "@midnight",
    "@Hourly",
    "@never",
    "@every 1s",
    "@every 1.5s",
    "@every 999ms",
    "@every 1h30m",
    "@every -1s",
    "@every  1s",
    "@every 1",
    "@every",
    "@at 2199-01-01T00:00:00Z",
    "@at 2199-01-01T00:00:00.123456789Z",
    "@at 2199-01-01T00:00:00+02:00",
    "@at 2199-01-01 00:00:00",
    "@at 2199-13-01T00:00:00Z",
    "@at tomorrow",
    "@at ",
)
ZONES = (
    "UTC",
    "Europe/Vienna",
    "America/Argentina/Ushuaia",
    "Etc/GMT+3",
    "CET",
    "",
    "Nowhere",
    "../UTC",
    "/UTC",
)


@scenario
async def patterns_are_checked(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True})
    for pattern in PATTERNS:
        await probe.publish("s.in", b"x", schedule(pattern), label=f"pattern '{pattern}'")
    for zone in ZONES:
        named = {"Nats-Schedule-Time-Zone": zone}
        await probe.publish("s.in", b"x", schedule("@hourly") | named, label=f"zone '{zone}'")
        await probe.publish("s.in", b"x", named, label=f"only zone '{zone}'")
    for fixed in ("@every 1h", "@at 2199-01-01T00:00:00Z"):
        await probe.publish(
            "s.in", b"x", schedule(fixed, Schedule_Time_Zone="UTC"), label=f"{fixed} in a zone"
        )
    await probe.state("S")


@scenario
async def what_goes_with_a_schedule_is_checked(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True})
    for name, value in (
        ("Schedule_Rollup", "sub"),
        ("Schedule_Rollup", "SUB"),
        ("Schedule_Rollup", "all"),
        ("Rollup", "sub"),
        ("Rollup", "Sub"),
        ("Rollup", "all"),
        ("Schedule_TTL", "1h"),
        ("Schedule_TTL", "x"),
        ("Schedule_Source", "s.in"),
        ("Schedule_Source", "s.out"),
        ("Schedule_Source", "other"),
        ("Schedule_Source", "s.>"),
        ("Scheduler", "s.other"),
        ("Schedule_Next", "purge"),
        ("Schedule_Next", "2999-01-01T00:00:00Z"),
    ):
        await probe.publish("s.in", b"x", schedule("@hourly", **{name: value}), label=f"{name} '{value}'")
    await probe.publish("s.in", b"x", schedule("@hourly", "t.out", Schedule_Source="s.*"), label="both wrong")
    await probe.publish("s.a", b"x", {"Nats-Scheduler": "s.in"}, label="only a scheduler")
    await probe.publish("s.plain", b"x")
    for scheduler in ("s.plain", "s.nothing", "s.*", "", "s.a"):
        ends = {"Nats-Schedule-Next": "purge", "Nats-Scheduler": scheduler}
        await probe.publish("s.a", b"x", ends, label=f"ends '{scheduler}'")
    await probe.contents("S")


@scenario
async def a_schedule_ends_with_its_message(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True})
    soon = schedule("@every 1s", Schedule_Rollup="sub")
    await probe.publish("s.replaced", b"replaced", soon | {"Nats-Schedule-Target": "s.out.replaced"})
    await probe.publish("s.replaced", b"by another")
    await probe.publish("s.purged", b"purged", soon | {"Nats-Schedule-Target": "s.out.purged"})
    await probe.api("STREAM.PURGE.S", {"filter": "s.purged"})
    answer = await probe.publish("s.deleted", b"deleted", soon | {"Nats-Schedule-Target": "s.out.deleted"})
    await probe.api("STREAM.MSG.DELETE.S", {"seq": answer["seq"]})
    await probe.publish("s.runs", b"runs", soon | {"Nats-Schedule-Target": "s.out.runs"})
    await probe.settle("S", lambda state: state["messages"] >= 4)
    found = await probe.quietly("STREAM.INFO.S", {"subjects_filter": ">"})
    probe.record("subjects", "$JS.API.STREAM.INFO.S", found["state"]["subjects"])


@scenario
async def what_a_schedule_publishes(probe: Probe) -> None:
    await probe.create({"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "allow_msg_ttl": True})
    headers = schedule(
        "* * * * * *",
        Schedule_Time_Zone="Asia/Kolkata",
        Schedule_TTL="90s",
        Schedule_Rollup="sub",
        Schedule_Source="s.from",
        Msg_Id="once",
        Expected_Stream="S",
        TTL="2h",
    )
    await probe.publish("s.in", b"own", headers | {"Own": "header"})
    await shown(probe, "without its source")
    await probe.publish("s.from", b"from", {"Other": "header", "Nats-Msg-Id": "from"})
    await shown(probe, "with its source", "Other: header")


async def shown(probe: Probe, label: str, wanted: str = "") -> None:
    """Record what was published last, once it carries what is wanted."""
    while True:
        answer = await probe.quietly("STREAM.MSG.GET.S", {"last_by_subj": "s.out"})
        if "message" in answer and wanted in (message := opened(answer["message"]))["hdrs"]:
            break
    message["hdrs"] = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d", "<time>", message["hdrs"])
    probe.record(
        label, "$JS.API.STREAM.MSG.GET.S", {key: message[key] for key in ("subject", "hdrs", "data")}
    )


@scenario
async def a_schedule_publishes_through_the_rest_of_the_stream(probe: Probe) -> None:
    transform = {"src": "s.out", "dest": "s.moved"}
    config = {"name": "S", "subjects": ["s.>"], "allow_msg_schedules": True, "subject_transform": transform}
    await probe.create(config | {"republish": {"src": "s.moved", "dest": "republished"}})
    async with probe.listening("republished") as heard:
        await probe.publish("s.in", b"moved", schedule("@at 2001-01-01T00:00:00Z"))
        await heard.take(1)
    await probe.contents("S")
