"""Single messages of a stream, read and deleted through the API."""

from typing import Any

from conformance.probe import Probe
from conformance.scenario import scenario

GET = "STREAM.MSG.GET.M"
DELETE = "STREAM.MSG.DELETE.M"


async def six_messages(probe: Probe, **config: Any) -> list[str]:
    """Store six messages on three subjects, the fourth one deleted, and return their times."""
    await probe.create({"name": "M", "subjects": ["m.>"]} | config)
    for number, subject in enumerate(("m.a", "m.b", "m.a", "m.c", "m.b", "m.a.x"), 1):
        await probe.publish(subject, b"%d" % number, {"Number": f"{number}"} if number % 2 else None)
    times = [(await probe.quietly(GET, {"seq": seq}))["message"]["time"] for seq in range(1, 7)]
    await probe.api(DELETE, {"seq": 4})
    return times


@scenario
async def a_message_is_got_by_sequence_or_subject(probe: Probe) -> None:
    await six_messages(probe)
    for request in (
        {"seq": 1},
        {"seq": 2},
        {"seq": 4},
        {"seq": 7},
        {"seq": 0},
        {"last_by_subj": "m.a"},
        {"last_by_subj": "m.c"},
        {"last_by_subj": "m.*"},
        {"last_by_subj": ">"},
        {"last_by_subj": "other"},
        {"last_by_subj": "m..a"},
        {"next_by_subj": "m.a"},
        {"next_by_subj": "m.a", "seq": 2},
        {"next_by_subj": "m.a", "seq": 3},
        {"next_by_subj": "m.a", "seq": 4},
        {"next_by_subj": "m.*", "seq": 4},
        {"next_by_subj": ">", "seq": 99},
        {"next_by_subj": "other"},
        {"seq": 1, "no_hdr": True},
        {"last_by_subj": "m.b", "no_hdr": True},
    ):
        await probe.api(GET, request, label=f"get {request}")


@scenario
async def a_message_is_got_by_time(probe: Probe) -> None:
    times = await six_messages(probe)
    for seq in (1, 2, 4, 6):
        at = times[seq - 1]
        await probe.api(GET, {"start_time": at}, label=f"from the time of {seq}")
        await probe.api(GET, {"start_time": at, "next_by_subj": "m.b"}, label=f"next m.b from {seq}")
    await probe.api(GET, {"start_time": "1999-01-01T00:00:00Z"}, label="from long ago")
    await probe.api(GET, {"start_time": "2999-01-01T00:00:00Z"}, label="from the future")
    await probe.api(GET, {"start_time": "yesterday"}, label="from no time")
    await probe.api(GET, {"start_time": "2020-01-01T01:00:00+01:00"}, label="from another zone")


@scenario
async def what_no_get_asks_for(probe: Probe) -> None:
    times = await six_messages(probe)
    for request in (
        {},
        {"seq": 1, "last_by_subj": "m.a"},
        {"last_by_subj": "m.a", "next_by_subj": "m.a"},
        {"seq": 1, "batch": 2},
        {"seq": 1, "max_bytes": 20},
        {"multi_last": ["m.a"]},
        {"up_to_seq": 3},
        {"no_hdr": True},
        {"seq": -1},
        {"seq": "1"},
        {"wings": 2},
    ):
        await probe.api(GET, request, label=f"get {request}")
    await probe.api(GET, {"seq": 1, "start_time": times[0]}, label="get by sequence and time")
    await probe.api(GET, {"last_by_subj": "m.a", "start_time": times[0]}, label="get last and time")


@scenario
async def payloads_come_back_as_they_were(probe: Probe) -> None:
    await probe.create({"name": "M", "subjects": ["m.>"]})
    await probe.publish("m.empty", b"")
    await probe.publish("m.headers", b"", {"A": "b"})
    await probe.publish("m.binary", bytes(range(256)))
    await probe.publish("m.large", b"0123456789" * 20_000)
    await probe.publish("m.umlaut.gr\u00fc\u00df", "gr\u00fc\u00df".encode())
    await probe.publish("m.headers", b"x", {"Lower-case": "v", "UPPER": "w", "Colon": "a:b: c"})
    for seq in range(1, 7):
        await probe.api(GET, {"seq": seq}, label=f"message {seq}")


@scenario
async def an_empty_stream_has_no_message(probe: Probe) -> None:
    await probe.create({"name": "M", "subjects": ["m.>"]})
    for request in ({"seq": 1}, {"last_by_subj": ">"}, {"next_by_subj": ">"}):
        await probe.api(GET, request, label=f"get {request}")
    await probe.api(GET, {"start_time": "1999-01-01T00:00:00Z"}, label="get by time")
    await probe.api(DELETE, {"seq": 1})


@scenario
async def a_message_is_deleted_once(probe: Probe) -> None:
    await six_messages(probe)
    for request in (
        {"seq": 2},
        {"seq": 2},
        {"seq": 4},
        {"seq": 99},
        {"seq": 0},
        {},
        {"seq": 3, "no_erase": True},
    ):
        await probe.api(DELETE, request, label=f"delete {request}")
    await probe.api(GET, {"seq": 2}, label="get the deleted")
    await probe.api(DELETE, {"seq": "5"}, label="delete by a string")
    await probe.api(DELETE, {"seq": 5, "wings": 2}, label="delete with an unknown key")
    await probe.state("M", deleted_details=True, subjects_filter=">")
    await probe.contents("M")


@scenario
async def deleting_may_be_denied(probe: Probe) -> None:
    await probe.create({"name": "M", "subjects": ["m.>"], "deny_delete": True})
    await probe.publish("m.a", b"kept")
    await probe.api(DELETE, {"seq": 1}, label="denied")
    await probe.api(DELETE, {"seq": 9}, label="denied for nothing")
    await probe.api("STREAM.PURGE.M", label="a purge is another matter")
    await probe.state("M")


@scenario
async def a_memory_stream_answers_the_same(probe: Probe) -> None:
    await six_messages(probe, storage="memory")
    for request in ({"seq": 1}, {"seq": 4}, {"last_by_subj": "m.*"}, {"next_by_subj": "m.b", "seq": 3}):
        await probe.api(GET, request, label=f"get {request}")
    await probe.api(DELETE, {"seq": 1})
    await probe.state("M", deleted_details=True)
