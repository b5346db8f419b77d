"""Direct get: messages as they are, one or many, without JSON around them."""

from typing import Any

from conformance.probe import Probe
from conformance.scenario import scenario

SUBJECTS = ("d.a", "d.b", "d.a", "d.c", "d.b", "d.a.x", "d.c", "d.a")


async def eight_messages(probe: Probe, **config: Any) -> list[str]:
    """Store eight messages on four subjects, the fourth one deleted, and return their times."""
    await probe.create({"name": "D", "subjects": ["d.>"], "allow_direct": True} | config)
    for number, subject in enumerate(SUBJECTS, 1):
        await probe.publish(subject, b"%d" % number * number, {"Number": f"{number}"} if number % 2 else None)
    times = [
        (await probe.quietly("STREAM.MSG.GET.D", {"seq": seq}))["message"]["time"] for seq in range(1, 9)
    ]
    await probe.api("STREAM.MSG.DELETE.D", {"seq": 4})
    return times


@scenario
async def one_message_by_sequence_or_subject(probe: Probe) -> None:
    await eight_messages(probe)
    for request in (
        {"seq": 1},
        {"seq": 2},
        {"seq": 4},
        {"seq": 99},
        {"last_by_subj": "d.a"},
        {"last_by_subj": "d.*"},
        {"last_by_subj": "other"},
        {"next_by_subj": "d.b"},
        {"next_by_subj": "d.b", "seq": 3},
        {"next_by_subj": "d.>", "seq": 4},
        {"next_by_subj": "d.b", "seq": 6},
        {"seq": 1, "no_hdr": True},
        {"last_by_subj": "d.c", "no_hdr": True},
    ):
        await probe.direct("D", request)


@scenario
async def the_last_message_of_a_subject_in_the_request(probe: Probe) -> None:
    await eight_messages(probe)
    for subject in ("d.a", "d.b", "d.a.x", "d.z", "other", "d.*", "d.>"):
        await probe.direct(f"D.{subject}")
    await probe.direct("D.d.c", {"no_hdr": True})
    await probe.direct("D.d.c", {"seq": 1})
    await probe.direct("D.d.c", b"{", label="torn body")
    await probe.direct("D.d.c", {"batch": 2}, label="last by subject with a batch")


@scenario
async def messages_by_time(probe: Probe) -> None:
    times = await eight_messages(probe)
    for seq in (1, 3, 4, 8):
        at = {"start_time": times[seq - 1]}
        await probe.direct("D", at, label=f"from {seq}")
        await probe.direct("D", at | {"next_by_subj": "d.b"}, label=f"next d.b from {seq}")
        await probe.direct("D", at | {"batch": 3}, label=f"three from {seq}")
        await probe.direct("D", at | {"batch": 3, "next_by_subj": "d.a"}, label=f"three d.a from {seq}")
    await probe.direct("D", {"start_time": "1999-01-01T00:00:00Z"}, label="from long ago")
    await probe.direct("D", {"start_time": "2999-01-01T00:00:00Z"}, label="from the future")
    await probe.direct(
        "D", {"start_time": "2999-01-01T00:00:00Z", "batch": 2}, label="a batch from the future"
    )


@scenario
async def a_batch_counts_down_to_its_end(probe: Probe) -> None:
    await eight_messages(probe)
    for request in (
        {"seq": 1, "batch": 3},
        {"seq": 1, "batch": 99},
        {"seq": 4, "batch": 2},
        {"seq": 8, "batch": 5},
        {"seq": 9, "batch": 5},
        {"seq": 0, "batch": 2},
        {"batch": 2},
        {"batch": 0, "seq": 1},
        {"batch": -1, "seq": 1},
        {"batch": 1, "seq": 2},
        {"next_by_subj": "d.a", "batch": 10},
        {"next_by_subj": "d.a", "seq": 3, "batch": 1},
        {"next_by_subj": "d.*", "seq": 2, "batch": 3},
        {"next_by_subj": "other", "batch": 3},
        {"seq": 1, "batch": 3, "no_hdr": True},
        {"seq": 1, "batch": 3, "up_to_seq": 2},
    ):
        await probe.direct("D", request)


@scenario
async def a_batch_ends_with_its_bytes(probe: Probe) -> None:
    await eight_messages(probe)
    for most in (1, 20, 30, 40, 60, 100, 10_000):
        await probe.direct("D", {"seq": 1, "batch": 8, "max_bytes": most})
    await probe.direct("D", {"seq": 1, "max_bytes": 40})
    await probe.direct("D", {"multi_last": ["d.>"], "max_bytes": 30})


@scenario
async def the_last_of_many_subjects(probe: Probe) -> None:
    times = await eight_messages(probe)
    requests: tuple[dict[str, Any], ...] = (
        {"multi_last": ["d.>"]},
        {"multi_last": ["d.a", "d.b"]},
        {"multi_last": ["d.b", "d.a"]},
        {"multi_last": ["d.*", "d.a"]},
        {"multi_last": ["d.a", "other"]},
        {"multi_last": ["other"]},
        {"multi_last": []},
        {"multi_last": ["d..a"]},
        {"multi_last": ["d.>"], "batch": 2},
        {"multi_last": ["d.>"], "batch": 2, "seq": 6, "up_to_seq": 8},
        {"multi_last": ["d.>"], "up_to_seq": 5},
        {"multi_last": ["d.>"], "up_to_seq": 1},
        {"multi_last": ["d.a"], "up_to_seq": 4},
        {"multi_last": ["d.c"], "up_to_seq": 6},
        {"multi_last": ["d.>"], "seq": 7},
        {"multi_last": ["d.>"], "seq": 99},
        {"multi_last": ["d.>"], "up_to_seq": 99},
        {"multi_last": ["d.>"], "no_hdr": True},
    )
    for request in requests:
        await probe.direct("D", request)
    for seq in (1, 3, 5, 8):
        await probe.direct("D", {"multi_last": ["d.>"], "up_to_time": times[seq - 1]}, label=f"up to {seq}")
    await probe.direct("D", {"multi_last": ["d.>"], "up_to_time": "1999-01-01T00:00:00Z"}, label="up to 1999")
    await probe.direct("D", {"multi_last": ["d.>"], "up_to_time": "2999-01-01T00:00:00Z"}, label="up to 2999")
    await probe.direct("D", {"multi_last": ["d.>"], "start_time": times[4]}, label="from the time of 5")


@scenario
async def too_many_subjects_are_refused(probe: Probe) -> None:
    await probe.create({"name": "D", "subjects": ["d.>"], "allow_direct": True, "storage": "memory"})
    for number in range(1025):
        await probe.nc.publish(f"d.{number}", b"")
    await probe.settle("D", lambda state: state["messages"] == 1025)
    await probe.direct("D", {"multi_last": ["d.>"]})
    await probe.direct("D", {"multi_last": ["d.>"], "batch": 1})
    await probe.direct("D", {"multi_last": ["d.1", "d.2"]})


@scenario
async def bad_requests_get_a_status(probe: Probe) -> None:
    times = await eight_messages(probe)
    at = {"start_time": times[0]}
    await probe.direct("D", b"", label="nothing")
    await probe.direct("D", b"{", label="torn")
    await probe.direct("D", b"[]", label="a list")
    await probe.direct("D", {"seq": "1"}, label="a string for a number")
    await probe.direct("D", {"wings": 2}, label="an unknown key")
    await probe.direct("D", {"seq": 1, "wings": 2}, label="an unknown key more")
    for request in (
        {},
        {"seq": 0},
        {"no_hdr": True},
        {"up_to_seq": 3},
        {"max_bytes": 10},
        {"seq": 1, "last_by_subj": "d.a"},
        {"last_by_subj": "d.a", "next_by_subj": "d.a"},
        {"last_by_subj": "d.a", "batch": 2},
        {"last_by_subj": "d.a", "multi_last": ["d.a"]},
        {"next_by_subj": "d.a", "multi_last": ["d.a"]},
        {"multi_last": ["d.a"], "up_to_seq": 3, "up_to_time": times[0]},
        {"seq": 1, "batch": 2, "up_to_time": times[0]},
    ):
        label = str(request).replace(times[0], "<time>")
        await probe.direct("D", request, label=f"direct {label}")
    await probe.direct("D", {"seq": 1} | at, label="sequence and time")
    await probe.direct("D", {"last_by_subj": "d.a"} | at, label="last and time")


@scenario
async def an_empty_stream_has_nothing_to_get(probe: Probe) -> None:
    await probe.create({"name": "D", "subjects": ["d.>"], "allow_direct": True})
    for request in (
        {"seq": 1},
        {"last_by_subj": "d.a"},
        {"next_by_subj": "d.a"},
        {"seq": 1, "batch": 2},
        {"multi_last": ["d.>"]},
        {"multi_last": ["d.>"], "up_to_seq": 3},
    ):
        await probe.direct("D", request)
    await probe.direct("D.d.a")


@scenario
async def nobody_answers_while_direct_is_off(probe: Probe) -> None:
    config: dict[str, Any] = {"name": "D", "subjects": ["d.>"]}
    await probe.create(config)
    await probe.publish("d.a", b"x")
    await probe.direct("D", {"seq": 1}, label="off")
    await probe.direct("D.d.a", label="off by subject")
    await probe.update(config | {"allow_direct": True})
    await probe.direct("D", {"seq": 1}, label="on")
    await probe.direct("D.d.a", label="on by subject")
    await probe.update(config)
    await probe.direct("D", {"seq": 1}, label="off again")
    await probe.api("STREAM.DELETE.D")
    await probe.direct("D", {"seq": 1}, label="deleted")


@scenario
async def a_memory_stream_is_got_the_same_way(probe: Probe) -> None:
    await eight_messages(probe, storage="memory")
    for request in (
        {"seq": 1},
        {"last_by_subj": "d.*"},
        {"seq": 2, "batch": 3},
        {"next_by_subj": "d.a", "batch": 2},
        {"multi_last": ["d.>"]},
        {"multi_last": ["d.>"], "up_to_seq": 5},
        {"seq": 1, "batch": 8, "max_bytes": 40},
    ):
        await probe.direct("D", request)
