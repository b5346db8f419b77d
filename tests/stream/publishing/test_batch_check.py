"""A batch is checked as a whole: what its messages expect of the stream and of each other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from headwater.model import headers as header_block
from headwater.model.stream import Discard
from headwater.model.times import SECOND
from headwater.stream.stream import Stream
from stream.batches import RecordedAnswers, batch, commit
from stream.streams import Workshop, everything, headers, publish


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    workshop = Workshop(tmp_path, answers=RecordedAnswers())
    yield workshop
    workshop.close()


async def outcome(workshop: Workshop, stream: Stream, *messages: tuple[bytes, bytes]) -> dict[str, Any]:
    """Commit a batch and return its last answer."""
    return await commit(workshop, stream, b"x", *messages)


LAST, ON_SUBJECT = "Nats_Expected_Last_Sequence", "Nats_Expected_Last_Subject_Sequence"


@pytest.mark.parametrize(
    ("messages", "err_code"),
    [
        ([(b"a", headers(**{LAST: "2"})), (b"b", b"")], 10071),
        ([(b"b", b""), (b"b", headers(**{LAST: "2"}))], 10164),
        ([(b"b", b""), (b"b", headers(**{LAST: "1"}))], 10071),
        ([(b"b", b""), (b"b", headers(**{ON_SUBJECT: "2"}))], 10164),
        ([(b"b", headers(**{ON_SUBJECT: "1"})), (b"a", b"")], 10071),
        ([(b"b", headers(**{ON_SUBJECT + "_Subject": "a"})), (b"a", b"")], 10193),
        ([(b"b", headers(Nats_Expected_Stream="X")), (b"a", b"")], 10060),
        ([(b"b", headers(Nats_Expected_Last_Msg_Id="one")), (b"a", b"")], 10177),
        ([(b"b", headers(Nats_Msg_Id="one")), (b"a", b"")], 10201),
        ([(b"b", headers(Nats_Msg_Id="two")), (b"a", headers(Nats_Msg_Id="two"))], 10201),
        ([(b"b", headers(Nats_Stream_Source="x")), (b"a", b"")], 10227),
        ([(b"b", headers(Nats_TTL="1s")), (b"a", b"")], 10166),
        ([(b"b", headers(Nats_TTL="x")), (b"a", b"")], 10166),
        ([(b"b", headers(Nats_Rollup="some")), (b"a", b"")], 10111),
        ([(b"b", b""), (b"b", headers(Nats_Rollup="sub"))], 10111),
        ([(b"b", b""), (b"c", headers(Nats_Rollup="all"))], 10111),
        ([(b"b", headers(Nats_Incr="1")), (b"c", b"")], 10168),
        ([(b"b", headers(Nats_Schedule="@hourly")), (b"c", b"")], 10188),
        ([(b"b", headers(Own="x" * 65_536)), (b"c", b"")], 10097),
    ],
)
async def test_one_message_that_is_refused_refuses_the_batch(
    workshop: Workshop, messages: list[tuple[bytes, bytes]], err_code: int
) -> None:
    async with workshop.stream(allow_atomic=True, allow_rollup_hdrs=True) as stream:
        await publish(stream, (b"a", b"first", headers(Nats_Msg_Id="one")))
        answer = await outcome(workshop, stream, *messages)
        assert answer["error"]["err_code"] == err_code
        assert [message.data for message in await everything(stream)] == [b"first"]
        assert "error" not in await outcome(workshop, stream, (b"b", headers(Nats_Msg_Id="two")), (b"c", b""))


async def test_what_is_expected_right_is_stored(workshop: Workshop) -> None:
    async with workshop.stream(allow_atomic=True) as stream:
        await publish(stream, (b"a", b"first"))
        answer = await outcome(
            workshop,
            stream,
            (b"b", headers(**{LAST: "1", ON_SUBJECT: "0"})),
            (b"c", headers(**{ON_SUBJECT: "1", ON_SUBJECT + "_Subject": "a"})),
            (b"d", headers(**{ON_SUBJECT: "1", ON_SUBJECT + "_Subject": "a"})),
        )
        assert answer == {"stream": "S", "seq": 4, "batch": "x", "count": 3}


async def test_a_batch_counts_on_from_its_own_messages(workshop: Workshop) -> None:
    add = headers(Nats_Incr="2")
    async with workshop.stream(allow_atomic=True, allow_msg_counter=True) as stream:
        await publish(stream, (b"a", b"", headers(Nats_Incr="5")))
        await outcome(workshop, stream, (b"a", add), (b"b", add), (b"a", add))
        await publish(stream, (b"a", b"", add))
        assert [message.data for message in await everything(stream, filters=["a"])] == [
            b'{"val":"5"}',
            b'{"val":"7"}',
            b'{"val":"9"}',
            b'{"val":"11"}',
        ]


async def test_a_batch_that_would_not_fit_is_refused(workshop: Workshop) -> None:
    async with workshop.stream(allow_atomic=True, max_msgs=3, discard=Discard.NEW) as stream:
        await publish(stream, (b"a", b""), (b"a", b""))
        assert (await outcome(workshop, stream, (b"a", b""), (b"a", b"")))["error"]["err_code"] == 10077
        assert "error" not in await outcome(workshop, stream, (b"a", b""))
        assert (await stream.reading.state()).messages == 3


async def test_a_batch_may_cancel_a_schedule_and_make_another(workshop: Workshop) -> None:
    later = headers(Nats_Schedule="@at 2999-01-01T00:00:00Z", Nats_Schedule_Target="out")
    cancel = headers(Nats_Schedule_Next="purge", Nats_Scheduler="in")
    async with workshop.stream(allow_atomic=True, allow_msg_schedules=True, allow_rollup_hdrs=True) as stream:
        assert "error" not in await outcome(workshop, stream, (b"in", later), (b"done", cancel))
        assert [message.subject for message in await everything(stream)] == [b"done"]
        assert (await outcome(workshop, stream, (b"in", b""), (b"done", cancel)))["error"][
            "err_code"
        ] == 10212


async def test_a_ttl_in_a_batch_holds(workshop: Workshop) -> None:
    async with workshop.stream(allow_atomic=True, allow_msg_ttl=True) as stream:
        await outcome(workshop, stream, (b"a", headers(Nats_TTL="1s")), (b"b", b""))
        workshop.clock.advance(2 * SECOND)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
        assert [message.subject for message in await everything(stream)] == [b"b"]


async def test_only_the_message_that_commits_is_acknowledged(workshop: Workshop) -> None:
    answers = workshop.answers
    assert isinstance(answers, RecordedAnswers)
    async with workshop.stream(allow_atomic=True) as stream:
        stream.publishing.offer([(b"a", b"r1", batch(b"x", 1), b""), (b"a", b"r2", batch(b"x", 2), b"")])
        await stream.publishing.settled()
        assert answers.bodies() == [(b"r1", b""), (b"r2", b"")]
        stream.publishing.offer(
            [(b"a", b"r3", header_block.add(batch(b"x", 3), b"Nats-Batch-Commit", b"eob"), b"")]
        )
        await stream.publishing.settled()
        assert answers.bodies() == [(b"r3", b'{"stream":"S","seq":2,"batch":"x","count":2}')]
