"""Fast ingest: messages numbered in their reply subjects, acknowledged many at a time."""

from conformance.probe import Probe, text
from conformance.scenario import scenario

START, APPEND, COMMIT, END, PING = range(5)
Message = tuple[int, int] | tuple[int, int, dict[str, str]]
QUIET_AFTER_S = 0.3


async def ingest(
    probe: Probe,
    label: str,
    *messages: Message,
    subject: str = "f.a",
    flow: str = "3",
    gap: str = "fail",
    data: bytes = b"x",
) -> None:
    """Publish the messages of a batch and record all that is answered, by the end of its reply subject."""
    inbox = probe.nc.new_inbox()
    async with probe.listening(f"{inbox}.>") as heard:
        for seq, operation, *more in messages:
            reply = f"{inbox}.batch.{flow}.{gap}.{seq}.{operation}.$FI"
            await probe.nc.publish(subject, data, reply=reply, headers=more[0] if more else None)
        # The answer to a ping of an unknown batch comes after all others.
        await probe.nc.publish(subject, b"", reply=f"{inbox}.none.3.fail.9.{PING}.$FI")
        replies = []
        while True:
            msg = await heard.queue.get()
            if ".none." in msg.subject:
                break
            replies.append(
                (msg.subject.removeprefix(f"{inbox}.batch."), text(msg.data).replace(": true", ":true"))
            )
    probe.record(
        label, f"PUB {subject} with replies {inbox}.batch.{flow}.{gap}.<seq>.<operation>.$FI", replies
    )


@scenario
async def messages_are_acknowledged_now_and_then(probe: Probe) -> None:
    await probe.create({"name": "F", "subjects": ["f.>"], "allow_batched": True})
    appended = [(seq, APPEND) for seq in range(2, 9)]
    await ingest(probe, "committed", (1, START), *appended, (9, COMMIT))
    await ingest(probe, "ended", (1, START), (2, APPEND), (3, END))
    await ingest(probe, "one alone", (1, COMMIT))
    await ingest(probe, "each acknowledged", (1, START), (2, APPEND), (3, COMMIT), flow="1")
    await ingest(
        probe, "flow is no number", (1, START), *appended, (9, APPEND), (10, APPEND), (11, END), flow="x"
    )
    await ingest(probe, "asked again", (1, START), (2, APPEND), (2, PING), (3, APPEND), (1, PING), (4, END))
    await probe.state("F")


@scenario
async def gaps_end_a_batch_or_not(probe: Probe) -> None:
    await probe.create({"name": "F", "subjects": ["f.>"], "allow_batched": True})
    gap = ((1, START), (2, APPEND), (4, APPEND), (5, APPEND), (6, COMMIT))
    await ingest(probe, "a gap", *gap)
    await ingest(probe, "a gap allowed", *gap, gap="ok")
    back = ((1, START), (2, APPEND), (2, APPEND), (3, END))
    await ingest(probe, "backwards", *back)
    await ingest(probe, "backwards with gaps allowed", *back, gap="ok")
    late = ((1, START), (2, APPEND), (5, END))
    await ingest(probe, "a gap at the end", *late)
    await ingest(probe, "a gap at the end allowed", *late, gap="ok")
    found = ((1, START), (2, APPEND), (5, PING), (6, APPEND), (7, COMMIT))
    await ingest(probe, "a gap found by ping", *found)
    await ingest(probe, "a gap found by ping allowed", *found, gap="ok")
    await probe.state("F")


@scenario
async def errors_end_a_batch_or_not(probe: Probe) -> None:
    await probe.create({"name": "F", "subjects": ["f.>"], "allow_batched": True, "max_msg_size": 300})
    wrong = {"Nats-Expected-Stream": "X"}
    await ingest(probe, "at first", (1, START, wrong), (2, COMMIT))
    await ingest(probe, "later", (1, START), (2, APPEND, wrong), (3, COMMIT))
    await ingest(probe, "later, allowed", (1, START), (2, APPEND, wrong), (3, COMMIT), gap="ok")
    await ingest(probe, "at last", (1, START), (2, COMMIT, wrong))
    await ingest(probe, "at last, allowed", (1, START), (2, COMMIT, wrong), gap="ok")
    await ingest(probe, "the wrong place", (1, START, {"Nats-Expected-Last-Sequence": "1"}))
    await ingest(probe, "a level", (1, START, {"Nats-Required-Api-Level": "99"}), (2, COMMIT))
    await ingest(probe, "too large", (1, START), data=b"x" * 301)
    await ingest(probe, "unknown", (2, APPEND))
    await ingest(probe, "no mode", (1, START), gap="maybe")
    await ingest(probe, "starts late", (2, START))
    await ingest(probe, "appends at first", (1, APPEND))
    await ingest(probe, "ends at first", (1, END))
    await ingest(probe, "no operation", (1, 9))
    await probe.state("F")


@scenario
async def duplicates_are_left_out(probe: Probe) -> None:
    await probe.create({"name": "F", "subjects": ["f.>"], "allow_batched": True})
    a, b = {"Nats-Msg-Id": "a"}, {"Nats-Msg-Id": "b"}
    await ingest(
        probe, "in between", (1, START, a), (2, APPEND, a), (3, APPEND, b), (4, APPEND, b), (5, COMMIT)
    )
    await ingest(probe, "at the end", (1, START), (2, COMMIT, a))
    await ingest(probe, "alone", (1, COMMIT, a))
    await ingest(probe, "at first", (1, START, a), (2, COMMIT))
    await probe.state("F")


@scenario
async def it_is_refused_where_it_is_off(probe: Probe) -> None:
    await probe.create({"name": "F", "subjects": ["f.>"]})
    reply = f"{probe.nc.new_inbox()}.batch.3.fail.1.0.$FI"
    async with probe.listening(reply) as heard:
        await probe.nc.publish("f.a", b"x", reply=reply)
        message = await heard.queue.get()
        probe.record("off", "PUB f.a with a reply of fast ingest", text(message.data))
    await probe.state("F")
