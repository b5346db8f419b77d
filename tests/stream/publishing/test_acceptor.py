"""Published messages are admitted or refused one by one, however many are in one read."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.model.stream import Discard, RePublish, StreamConfig
from headwater.model.upstream import TransformConfig
from headwater.stream.pending import BATCH_BYTES
from headwater.stream.stream import Stream
from stream.streams import SECOND, Workshop, config_of, everything, headers, publish

SMALL_READS = st.lists(
    st.lists(
        st.tuples(st.sampled_from([b"a", b"b.1", b"b.2"]), st.binary(max_size=30)), min_size=1, max_size=8
    ),
    min_size=1,
    max_size=5,
)


async def offered(stream: Stream, workshop: Workshop, *items: tuple[bytes, ...]) -> list[Any]:
    """Offer (subject, data[, headers]); return the sequence or the error code that each is answered with."""
    await publish(stream, *items)  # type: ignore[arg-type]
    answers = workshop.answers.take()
    answers_in_order = [answers[b"r%d" % n] for n in range(len(items))]
    return [
        answer["error"]["err_code"] if "error" in answer else answer["seq"] for answer in answers_in_order
    ]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(reads=SMALL_READS, limit=st.sampled_from([{}, {"max_msgs": 4}, {"max_bytes": 200}]))
def test_bulk_and_single_admission_end_in_the_same_stream(
    tmp_path_factory: pytest.TempPathFactory, reads: list[list[tuple[bytes, bytes]]], limit: dict[str, Any]
) -> None:
    async def ends_in(bulk: bool) -> tuple[object, ...]:
        workshop = Workshop(tmp_path_factory.mktemp("intake"))
        async with workshop.stream(**limit) as stream:
            assert stream._acceptor._is_plain
            stream._acceptor._is_plain = bulk
            answers = []
            for read in reads:
                answers.append(await offered(stream, workshop, *read))
                workshop.clock.advance(3)
            ended = (
                answers,
                await everything(stream),
                await stream.reading.state(),
                stream.reading.subject_counts(">"),
            )
        workshop.close()
        return ended

    assert asyncio.run(ends_in(True)) == asyncio.run(ends_in(False))


async def test_a_large_read_is_cut_into_batches_that_lose_little_when_damaged(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        stream.publishing.offer([(b"a", b"", b"", b"x" * 1000)] * 300)
        sizes = [len(encoded) for encoded in stream._sequencer.group.encoded]
        assert len(sizes) >= 300 * 1000 // BATCH_BYTES
        assert max(sizes) < 2 * BATCH_BYTES
        await stream.publishing.settled()
        assert (await stream.reading.state()).messages == 300


async def test_times_never_run_backwards_and_no_two_are_alike(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"")] * 5)
        await publish(stream, *[(b"a", b"", headers(K="v"))] * 5)
        await publish(stream, *[(b"a", b"")] * 5)
        times = [m.ts for m in await everything(stream)]
    assert times == sorted(set(times))
    assert times[0] == workshop.clock.now_ns()


async def test_a_refused_message_takes_no_sequence_and_the_others_of_its_read_enter(
    workshop: Workshop,
) -> None:
    async with workshop.stream(max_msg_size=5) as stream:
        answers_in_order = await offered(stream, workshop, (b"a", b"1"), (b"a", b"too large"), (b"a", b"3"))
        assert answers_in_order == [1, 10054, 2]
        assert [m.data for m in await everything(stream)] == [b"1", b"3"]


async def test_an_expectation_sees_the_messages_of_the_same_read(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        assert await offered(
            stream,
            workshop,
            (b"a", b"1"),
            (b"a", b"2", headers(Nats_Expected_Last_Sequence="1")),
            (b"a", b"3", headers(Nats_Expected_Last_Sequence="1")),
            (b"b", b"4", headers(Nats_Expected_Last_Subject_Sequence="0")),
            (b"b", b"5", headers(Nats_Expected_Last_Subject_Sequence="3")),
        ) == [1, 2, 10071, 3, 4]


async def test_an_expectation_sees_what_the_limits_took_in_the_same_read(workshop: Workshop) -> None:
    async with workshop.stream(max_msgs=1) as stream:
        assert await offered(
            stream,
            workshop,
            (b"a", b"1"),
            (b"b", b"2"),
            (b"a", b"3", headers(Nats_Expected_Last_Subject_Sequence="0")),
        ) == [1, 2, 3]


async def test_a_duplicate_is_acknowledged_with_the_first_sequence_and_not_stored(workshop: Workshop) -> None:
    async with workshop.stream(duplicate_window=SECOND) as stream:
        block = headers(Nats_Msg_Id="same")
        await publish(stream, (b"a", b"1", block), (b"a", b"2", block))
        answers = workshop.answers.take()
        assert answers[b"r1"] == {"stream": "S", "seq": 1, "duplicate": True}
        assert "duplicate" not in answers[b"r0"]
        workshop.clock.advance(2 * SECOND)
        assert await offered(stream, workshop, (b"a", b"3", block)) == [2]
        assert [m.data for m in await everything(stream)] == [b"1", b"3"]


@pytest.mark.parametrize("subject", [b"\xff", b"ok.\xc3"])
async def test_a_subject_that_is_no_text_is_refused(workshop: Workshop, subject: bytes) -> None:
    async with workshop.stream() as stream:
        assert await offered(stream, workshop, (subject, b""), ("ü.ö".encode(), b"")) == [10077, 1]
        assert [m.subject for m in await everything(stream)] == ["ü.ö".encode()]


async def test_without_acknowledgements_publishers_get_no_answer(workshop: Workshop) -> None:
    async with workshop.stream(no_ack=True, max_msg_size=3) as stream:
        await publish(stream, (b"a", b"1"), (b"a", b"too large"))
        block = headers(Nats_Msg_Id="same")
        await publish(stream, (b"a", b"2", block), (b"a", b"3", block))
        assert workshop.answers.frames == b""
        assert [m.seq for m in await everything(stream)] == [1]


async def test_messages_are_stored_under_the_subject_that_the_transform_gives(workshop: Workshop) -> None:
    transform = TransformConfig(src="in.*", dest="out.{{wildcard(1)}}")
    async with workshop.stream(subject_transform=transform, max_msgs_per_subject=1) as stream:
        await publish(stream, (b"in.a", b"1"), (b"other", b"2"), (b"out.a", b"3"))
        assert [(m.subject, m.data) for m in await everything(stream)] == [
            (b"other", b"2"),
            (b"out.a", b"3"),
        ]


async def test_republished_messages_follow_once_they_are_durable(workshop: Workshop) -> None:
    republish = RePublish(src="a.>", dest="copy.a.>")
    async with workshop.stream(republish=republish) as stream:
        stream.publishing.offer([(b"a.1", b"r", b"", b"data"), (b"b", b"", b"", b"no copy")])
        assert workshop.answers.frames == b""
        await stream.publishing.settled()
        sent = bytes(workshop.answers.frames)
        assert sent.index(b"PUB r ") < sent.index(b"HPUB copy.a.1 ")
        assert sent.count(b"HPUB") == 1


async def test_a_full_stream_that_discards_new_ones_takes_as_many_of_a_read_as_fit(
    workshop: Workshop,
) -> None:
    async with workshop.stream(max_msgs=2, discard=Discard.NEW) as stream:
        answers_in_order = await offered(stream, workshop, *[(b"a", b"%d" % n) for n in range(4)])
        assert answers_in_order == [1, 2, 10077, 10077]
        await stream.retention.remove(1)
        assert await offered(stream, workshop, (b"a", b"4"), (b"a", b"5")) == [3, 10077]


async def test_a_rollup_replaces_what_came_before_it_in_the_same_read(workshop: Workshop) -> None:
    async with workshop.stream(allow_rollup_hdrs=True) as stream:
        await publish(
            stream,
            (b"a", b"1"),
            (b"b", b"2"),
            (b"a", b"3", headers(Nats_Rollup="sub")),
            (b"c", b"4"),
        )
        assert [m.data for m in await everything(stream)] == [b"2", b"3", b"4"]
        await publish(stream, (b"d", b"5"), (b"e", b"6", headers(Nats_Rollup="all")), (b"f", b"7"))
        assert [m.data for m in await everything(stream)] == [b"6", b"7"]


async def test_a_read_may_hold_more_of_a_subject_than_the_stream_keeps(workshop: Workshop) -> None:
    async with workshop.stream(max_msgs_per_subject=2) as stream:
        answers_in_order = await offered(
            stream, workshop, *[(b"ab"[n % 2 :][:1], b"%d" % n) for n in range(9)]
        )
        assert answers_in_order == list(range(1, 10))
        assert [m.data for m in await everything(stream)] == [b"5", b"6", b"7", b"8"]
        assert stream.reading.subject_counts(">") == {b"a": 2, b"b": 2}


async def test_what_a_stream_no_longer_allows_is_refused_from_the_next_message_on(
    workshop: Workshop,
) -> None:
    plain: StreamConfig = config_of()
    async with workshop.stream(plain) as stream:
        assert await offered(stream, workshop, (b"a", b"1")) == [1]
        await stream.reconfigure(config_of(sealed=True))
        assert await offered(stream, workshop, (b"a", b"2")) == [10109]
        await stream.reconfigure(plain)
        assert await offered(stream, workshop, (b"a", b"3")) == [2]
