"""A group answers all its publishers in order once it is durable, or refuses every one of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from headwater.errors import api_error
from headwater.log.segment import Position
from headwater.stream.group import Group
from headwater.stream.head import HeadEntry
from headwater.wire.pub_ack import PubAcks
from stream.runs import message, run_of

ACKS = PubAcks("S", "")
FAILED = api_error("stream_store_failed", err="the disk is full")


def decoded(frames: bytes) -> Iterator[tuple[bytes, Any]]:
    """Yield the subject and the payload of each frame."""
    while frames:
        line, frames = frames.split(b"\r\n", 1)
        _, reply, size = line.split(b" ")
        body, frames = frames[: int(size)], frames[int(size) + 2 :]
        yield reply, json.loads(body) if body else None


def filled() -> Group:
    """Return a group with every kind of answer in it."""
    group = Group()
    group.acknowledge_run([b"r1", b"", b"r3"], 1)
    group.acknowledge(b"r4", 2, {"duplicate": True})
    group.refuse(b"r5", api_error("stream_wrong_last_sequence", seq=3))
    group.hold(b"r6")
    group.answer(b"r7", {"type": "ack", "seq": 4})
    return group


async def test_answers_go_out_in_the_order_of_the_messages() -> None:
    assert list(decoded(filled().answers(ACKS))) == [
        (b"r1", {"stream": "S", "seq": 1}),
        (b"r3", {"stream": "S", "seq": 3}),
        (b"r4", {"stream": "S", "seq": 2, "duplicate": True}),
        (
            b"r5",
            {
                "error": {"code": 400, "err_code": 10071, "description": "wrong last sequence: 3"},
                "stream": "S",
                "seq": 0,
            },
        ),
        (b"r6", None),
        (b"r7", {"type": "ack", "seq": 4}),
    ]


async def test_when_the_disk_refuses_no_publisher_is_acknowledged_and_each_gets_an_error() -> None:
    refusals = list(decoded(filled().refusals(ACKS, FAILED)))
    assert [reply for reply, _ in refusals] == [b"r1", b"r3", b"r4", b"r5", b"r6", b"r7"]
    codes = [body["error"]["err_code"] for _, body in refusals]
    assert codes == [10077, 10077, 10077, 10071, 10077, 10077], "what was refused anyhow keeps its reason"


async def test_what_follows_the_answers_is_sent_only_when_durable() -> None:
    group = Group()
    group.after.append(b"PUB copy 0\r\n\r\n")
    assert group
    group.acknowledge(b"r", 1, {})
    assert group.answers(ACKS).endswith(b"PUB copy 0\r\n\r\n")
    assert b"copy" not in group.refusals(ACKS, FAILED)


async def test_a_publisher_that_asked_for_no_answer_gets_none() -> None:
    group = Group()
    group.acknowledge(b"", 1, {"duplicate": True})
    group.hold(b"")
    group.refuse(b"", FAILED)
    assert not group
    assert group.answers(ACKS) == b""


async def test_entries_of_the_head_are_found_by_their_batch() -> None:
    group = Group()
    assert not group
    entry = HeadEntry.of(run_of([message(1)]), None)
    group.add(b"a removal")
    group.add(b"a message", entry)
    assert group
    assert group.entries == [(1, entry)]
    assert group.nbytes == len(b"a removal") + len(b"a message")
    positions = [Position(1, 0, 9), Position(1, 9, 9)]
    for index, held in group.entries:
        held.position = positions[index]
    assert entry.position == Position(1, 9, 9)
