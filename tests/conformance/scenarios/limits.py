"""What limits remove, and how the state of a stream counts messages and bytes."""

import asyncio
from typing import Any

from conformance.probe import Probe
from conformance.scenario import scenario


async def count_bytes(probe: Probe, storage: str) -> None:
    await probe.create({"name": "B", "subjects": ["b.>"], "storage": storage})
    await probe.publish("b.a", b"")
    await probe.state("B")
    await probe.publish("b.longer.subject", b"x" * 100)
    await probe.state("B")
    await probe.publish("b.a", b"x" * 7, {"A": "b"})
    await probe.state("B")
    await probe.publish("b.a", b"", {"Key-One": "v" * 50, "Key-Two": "w"})
    await probe.state("B")
    await probe.api("STREAM.MSG.DELETE.B", {"seq": 2})
    await probe.state("B")
    await probe.api("STREAM.MSG.DELETE.B", {"seq": 1, "no_erase": True})
    await probe.state("B")
    await probe.api("STREAM.PURGE.B")
    await probe.state("B")


@scenario
async def bytes_of_a_file_stream_count_its_overhead(probe: Probe) -> None:
    await count_bytes(probe, "file")


@scenario
async def bytes_of_a_memory_stream_count_its_overhead(probe: Probe) -> None:
    await count_bytes(probe, "memory")


@scenario
async def compression_does_not_change_the_bytes_shown(probe: Probe) -> None:
    await probe.create({"name": "C", "subjects": ["c"], "compression": "s2"})
    await probe.fill("c", *[b"x" * 1000] * 20)
    await probe.state("C")


@scenario
async def the_oldest_make_room_for_the_newest(probe: Probe) -> None:
    await probe.create({"name": "COUNT", "subjects": ["count.*"], "max_msgs": 3})
    for number in range(5):
        await probe.publish(f"count.{number % 2}", b"%d" % number)
    await probe.state("COUNT", subjects_filter=">")
    await probe.contents("COUNT")
    await probe.api("STREAM.MSG.DELETE.COUNT", {"seq": 4})
    await probe.publish("count.0", b"5")
    await probe.state("COUNT", deleted_details=True)
    await probe.publish("count.0", b"6")
    await probe.state("COUNT", deleted_details=True)


async def bounded_bytes(probe: Probe, storage: str) -> None:
    await probe.create({"name": "SPACE", "subjects": ["space"], "max_bytes": 500, "storage": storage})
    for size in (100, 100, 100, 100, 1, 300):
        await probe.publish("space", b"x" * size)
        await probe.state("SPACE")
    await probe.publish("space", b"x" * 499, label="larger than the stream")
    await probe.publish("space", b"x" * 600, label="much larger than the stream")
    await probe.state("SPACE")


@scenario
async def max_bytes_bounds_a_file_stream(probe: Probe) -> None:
    await bounded_bytes(probe, "file")


@scenario
async def max_bytes_bounds_a_memory_stream(probe: Probe) -> None:
    await bounded_bytes(probe, "memory")


@scenario
async def messages_leave_when_they_are_too_old(probe: Probe) -> None:
    await probe.create({"name": "AGED", "subjects": ["aged.*"], "max_age": 500_000_000})
    for subject in ("aged.a", "aged.b", "aged.a"):
        await probe.publish(subject, b"x")
    await probe.settle("AGED", lambda state: state["messages"] == 0)
    await probe.publish("aged.c", b"later")
    await probe.state("AGED")


@scenario
async def a_subject_keeps_its_newest(probe: Probe) -> None:
    await probe.create({"name": "PER", "subjects": ["per.>"], "max_msgs_per_subject": 2})
    for subject in ("per.a", "per.b", "per.a", "per.a", "per.b", "per.c", "per.a"):
        await probe.publish(subject, b"x")
    await probe.state("PER", deleted_details=True, subjects_filter=">")
    await probe.contents("PER")
    await probe.update({"name": "PER", "subjects": ["per.>"], "max_msgs_per_subject": 1})
    await probe.state("PER", deleted_details=True, subjects_filter=">")
    await probe.contents("PER")


@scenario
async def discard_new_refuses_what_does_not_fit(probe: Probe) -> None:
    await probe.create({"name": "FULL", "subjects": ["full"], "max_msgs": 2, "discard": "new"})
    for number in range(4):
        await probe.publish("full", b"%d" % number, {"Nats-Msg-Id": f"{number}"})
    await probe.publish("full", b"a duplicate", {"Nats-Msg-Id": "0"})
    await probe.publish("full", b"refused before, not remembered", {"Nats-Msg-Id": "3"})
    await probe.state("FULL")
    await probe.api("STREAM.MSG.DELETE.FULL", {"seq": 1})
    await probe.publish("full", b"fits again")
    await probe.contents("FULL")
    await probe.create({"name": "BYTES", "subjects": ["bytes"], "max_bytes": 200, "discard": "new"})
    for size in (50, 50, 50, 300):
        await probe.publish("bytes", b"x" * size)
    await probe.state("BYTES")


@scenario
async def discard_new_still_lets_a_subject_roll(probe: Probe) -> None:
    config = {
        "name": "ROLL",
        "subjects": ["roll.*"],
        "discard": "new",
        "max_msgs": 3,
        "max_msgs_per_subject": 1,
    }
    await probe.create(config)
    for subject in ("roll.a", "roll.b", "roll.a", "roll.c", "roll.d", "roll.a"):
        await probe.publish(subject, b"x")
    await probe.state("ROLL", subjects_filter=">")
    await probe.contents("ROLL")


@scenario
async def discard_new_per_subject_refuses_the_subject_only(probe: Probe) -> None:
    config = {
        "name": "STRICT",
        "subjects": ["strict.*"],
        "discard": "new",
        "discard_new_per_subject": True,
        "max_msgs_per_subject": 1,
    }
    await probe.create(config)
    for subject in ("strict.a", "strict.a", "strict.b", "strict.b"):
        await probe.publish(subject, b"x")
    await probe.state("STRICT", subjects_filter=">")
    await probe.api("STREAM.MSG.DELETE.STRICT", {"seq": 1})
    await probe.publish("strict.a", b"x")
    await probe.state("STRICT", subjects_filter=">")


@scenario
async def deleting_moves_the_edges_and_counts_the_inside(probe: Probe) -> None:
    await probe.create({"name": "HOLES", "subjects": ["h"]})
    await probe.state("HOLES")
    await probe.fill("h", *[b"x"] * 10)
    for seq in (5, 4, 1, 2, 3, 10, 9, 7):
        await probe.api("STREAM.MSG.DELETE.HOLES", {"seq": seq})
        await probe.state("HOLES", deleted_details=True)
    for seq in (6, 8):
        await probe.api("STREAM.MSG.DELETE.HOLES", {"seq": seq})
        await probe.state("HOLES", deleted_details=True)
    await probe.publish("h", b"after")
    await probe.state("HOLES", deleted_details=True)


@scenario
async def a_first_sequence_is_where_the_stream_begins(probe: Probe) -> None:
    for storage in ("file", "memory"):
        name, subject = f"FROM{storage}", f"from.{storage}"
        await probe.create({"name": name, "subjects": [subject], "first_seq": 100, "storage": storage})
        await probe.state(name)
        await probe.publish(subject, b"wrong", {"Nats-Expected-Last-Sequence": "0"})
        await probe.publish(subject, b"right", {"Nats-Expected-Last-Sequence": "99"})
        await probe.state(name)
        await probe.api(f"STREAM.MSG.GET.{name}", {"seq": 1})
        await probe.api(f"STREAM.MSG.GET.{name}", {"seq": 100})
        await probe.api(f"STREAM.PURGE.{name}")
        await probe.state(name)
    await probe.create({"name": "ONE", "first_seq": 1})
    await probe.state("ONE")


@scenario
async def an_emptied_stream_remembers_where_it_was(probe: Probe) -> None:
    for storage in ("file", "memory"):
        name, subject = f"EMPTY{storage}", f"empty.{storage}"
        await probe.create({"name": name, "subjects": [subject], "storage": storage})
        await probe.state(name)
        await probe.fill(subject, b"x", b"x")
        await probe.api(f"STREAM.MSG.DELETE.{name}", {"seq": 1})
        await probe.api(f"STREAM.MSG.DELETE.{name}", {"seq": 2})
        await probe.state(name)
        await probe.publish(subject, b"x")
        await probe.state(name)
        await probe.api(f"STREAM.PURGE.{name}")
        await probe.state(name)


@scenario
async def lower_limits_apply_at_once(probe: Probe) -> None:
    config: dict[str, Any] = {"name": "LOWER", "subjects": ["lower.*"]}
    await probe.create(config)
    for number in range(12):
        await probe.publish(f"lower.{number % 3}", b"x" * 50)
    await probe.update(config | {"max_msgs": 10})
    await probe.state("LOWER")
    await probe.update(config | {"max_bytes": 600})
    await probe.state("LOWER")
    await probe.update(config | {"max_msgs_per_subject": 1})
    await probe.state("LOWER", subjects_filter=">", deleted_details=True)
    await probe.update(config | {"max_age": 100_000_000})
    await probe.settle("LOWER", lambda state: state["messages"] == 0)


@scenario
async def lower_limits_with_discard_new(probe: Probe) -> None:
    config: dict[str, Any] = {"name": "LOWER", "subjects": ["lower.*"], "discard": "new"}
    await probe.create(config)
    for number in range(8):
        await probe.publish(f"lower.{number % 4}", b"x" * 50)
    await probe.update(config | {"max_msgs": 6})
    await probe.state("LOWER")
    await probe.publish("lower.0", b"refused")
    await probe.update(config | {"max_bytes": 400})
    await probe.state("LOWER")
    await probe.update(config | {"max_msgs_per_subject": 1})
    await probe.state("LOWER", subjects_filter=">")
    await probe.update(config | {"discard": "old", "max_msgs": 2})
    await probe.state("LOWER")


@scenario
async def limits_work_together(probe: Probe) -> None:
    config = {
        "name": "ALL",
        "subjects": ["all.*"],
        "max_msgs": 6,
        "max_bytes": 400,
        "max_msgs_per_subject": 3,
    }
    await probe.create(config)
    for number in range(20):
        await probe.publish(f"all.{number % 4}", b"x" * (number * 3))
    await probe.state("ALL", subjects_filter=">", deleted_details=True)
    await probe.contents("ALL")


@scenario
async def interest_without_consumers_keeps_nothing(probe: Probe) -> None:
    await probe.create({"name": "INTEREST", "subjects": ["interest"], "retention": "interest"})
    await probe.publish("interest", b"x")
    await probe.publish("interest", b"x")
    await probe.state("INTEREST")
    await probe.create({"name": "QUEUE", "subjects": ["queue"], "retention": "workqueue"})
    await probe.publish("queue", b"x")
    await probe.state("QUEUE")


@scenario
async def many_subjects_are_counted(probe: Probe) -> None:
    await probe.create({"name": "MANY", "subjects": ["many.>"]})
    futures = [await probe.js.publish_async(f"many.{number}", b"x") for number in range(3000)]
    await asyncio.gather(*futures)
    await probe.state("MANY")
    await probe.state("MANY", subjects_filter="many.12*")
    await probe.state("MANY", subjects_filter="many.1200")
    await probe.api("STREAM.PURGE.MANY", {"keep": 10})
    await probe.state("MANY", subjects_filter=">")
