"""One change is one record of the log, and replay makes the same ledger of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from headwater.model.run import Run
from headwater.model.stream import Retention, StreamConfig
from headwater.model.times import SECOND
from headwater.stream.pending import BATCH_BYTES
from headwater.stream.retention.hold import Hold
from headwater.stream.stream import Stream
from headwater.stream.timing.time_to_live import marker
from stream.batches import RecordedAnswers, batch, commit
from stream.streams import Workshop, config_of, everything, headers, publish


@pytest.fixture
async def workshop(tmp_path: Path) -> AsyncIterator[Workshop]:
    workshop = Workshop(tmp_path, answers=RecordedAnswers())
    yield workshop
    workshop.close()


def records(stream: Stream) -> int:
    """Return how many records the log of a stream holds."""
    return len(list(stream._store.log.replay()))


async def reopened(workshop: Workshop, stream: Stream, config: StreamConfig) -> dict[str, Any]:
    """Return the ledger that replay makes, having compared its sums with those of the running stream."""
    before = stream._store.ledger.dump()
    replayed = stream._store.replay().ledger.dump()
    for name in ("first_seq", "last_seq", "last_ts", "messages", "size", "deleted", "schedules"):
        assert replayed[name] == before[name], name
    assert replayed["subjects"]["count"] == before["subjects"]["count"]
    return replayed


async def test_a_large_batch_is_one_record(workshop: Workshop) -> None:
    config = config_of(allow_atomic=True)
    async with workshop.stream(config) as stream:
        messages = [(b"a.%d" % number, b"") for number in range(10)]
        await commit(workshop, stream, b"x", *messages, data=b"x" * BATCH_BYTES)
        assert records(stream) == 1
        assert [message.seq for message in await everything(stream)] == list(range(1, 11))
        await reopened(workshop, stream, config)


async def test_single_messages_of_one_read_share_records_that_stay_small(workshop: Workshop) -> None:
    config = config_of()
    async with workshop.stream(config) as stream:
        large = b"x" * BATCH_BYTES
        await publish(stream, *[(b"a", large, headers(Own="x"))] * 3, *[(b"a", b"", headers(Own="x"))] * 5)
        assert records(stream) == 4
        await reopened(workshop, stream, config)


async def test_a_batch_that_begins_with_a_rollup_of_all_is_one_record(workshop: Workshop) -> None:
    config = config_of(allow_atomic=True, allow_rollup_hdrs=True)
    async with workshop.stream(config) as stream:
        await publish(stream, (b"a", b"old"), (b"b", b"old"))
        await commit(workshop, stream, b"x", (b"a", headers(Nats_Rollup="all")), (b"b", b""), (b"a", b""))
        assert records(stream) == 2
        assert [message.seq for message in await everything(stream)] == [3, 4, 5]
        await reopened(workshop, stream, config)


async def test_a_batch_that_the_limits_cut_is_one_record(workshop: Workshop) -> None:
    config = config_of(allow_atomic=True, max_msgs_per_subject=2, max_msgs=3)
    async with workshop.stream(config) as stream:
        await publish(stream, (b"a", b"old"))
        await commit(workshop, stream, b"x", *[(b"a", b"")] * 3, *[(b"b", b"")] * 2)
        assert records(stream) == 2
        assert [message.seq for message in await everything(stream)] == [4, 5, 6]
        await reopened(workshop, stream, config)


async def test_a_batch_without_interest_in_any_message_is_one_record(workshop: Workshop) -> None:
    config = config_of(allow_atomic=True, retention=Retention.INTEREST)
    async with workshop.stream(config) as stream:
        stream.retention.holds.add(Hold(("a",)))
        answer = await commit(
            workshop, stream, b"x", (b"b", b""), (b"a", b""), (b"b", b""), (b"a", b""), (b"b", b"")
        )
        assert answer["seq"] == 5
        assert records(stream) == 1
        assert [message.seq for message in await everything(stream)] == [2, 4]
        await reopened(workshop, stream, config)
        await commit(workshop, stream, b"y", (b"b", b""), (b"b", b""))
        assert (await stream.reading.state()).last_seq == 7
        await reopened(workshop, stream, config)


async def test_a_rollup_without_interest_removes_what_it_would_replace(workshop: Workshop) -> None:
    config = config_of(allow_rollup_hdrs=True, retention=Retention.INTEREST)
    async with workshop.stream(config) as stream:
        stream.retention.holds.add(hold := Hold())
        await publish(stream, (b"a", b""), (b"b", b""))
        stream.retention.holds.discard(hold)
        await publish(stream, (b"a", b"", headers(Nats_Rollup="sub")))
        assert [message.seq for message in await everything(stream)] == [2]
        await reopened(workshop, stream, config)
        await publish(stream, (b"a", b"", headers(Nats_Rollup="all")))
        assert (await stream.reading.state()).messages == 0
        await reopened(workshop, stream, config)


async def test_an_expired_message_and_its_marker_are_one_record(workshop: Workshop) -> None:
    config = config_of(
        allow_msg_ttl=True, allow_rollup_hdrs=True, max_age=10 * SECOND, subject_delete_marker_ttl=5 * SECOND
    )
    async with workshop.stream(config) as stream:
        await publish(stream, (b"a", b""), (b"a", b""), (b"b", b""))
        workshop.clock.advance(11 * SECOND)
        await stream.retention.expire(workshop.clock.now_ns())
        assert records(stream) == 2
        found = await everything(stream)
        assert [(message.seq, message.subject) for message in found] == [(4, b"a"), (5, b"b")]
        assert {message.headers for message in found} == {marker(5 * SECOND)}
        await reopened(workshop, stream, config)
        workshop.clock.advance(6 * SECOND)
        await stream.retention.expire(workshop.clock.now_ns())
        assert (await stream.reading.state()).messages == 0


async def test_a_schedule_and_what_it_publishes_are_one_record(workshop: Workshop) -> None:
    config = config_of(allow_msg_schedules=True, allow_rollup_hdrs=True)
    async with workshop.stream(config) as stream:
        await publish(stream, (b"in", b"", headers(Nats_Schedule="@every 5s", Nats_Schedule_Target="out")))
        workshop.clock.advance(5 * SECOND)
        await stream.retention.expire(workshop.clock.now_ns())
        assert records(stream) == 2
        replayed = await reopened(workshop, stream, config)
        assert [entry[0] for entry in replayed["schedules"]] == [stream.retention.next_expiry_ns()]


async def test_messages_after_a_batch_keep_the_order_of_time(workshop: Workshop) -> None:
    async with workshop.stream(allow_atomic=True) as stream:
        block = batch(b"x", 1)
        commits = batch(b"x", 2, headers(Nats_Batch_Commit="1"))
        stream.publishing.offer(
            [(b"a", b"", block, b""), (b"a", b"", commits, b""), (b"a", b"", b"", b""), (b"a", b"", b"", b"")]
        )
        times = [message.ts for message in await everything(stream)]
        assert times == sorted(set(times))
        assert len(times) == 4


async def test_a_rollup_of_a_subject_with_one_message_reads_no_more_than_that_message_s_run(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop.stream(allow_rollup_hdrs=True) as stream:
        for number in range(12):
            await publish(stream, *[(b"s.%d.%d" % (number, each), b"x" * 100) for each in range(50)])
            await stream.folder.fold()
        view, read = stream._store.view, list[int]()

        def counted(read_run: Callable[[int], Run | None]) -> Callable[[int], Run | None]:
            def count(seq: int) -> Run | None:
                read.append(seq)
                return read_run(seq)

            return count

        for name in ("read_run_at", "run_now"):
            monkeypatch.setattr(view, name, counted(getattr(view, name)))
        for subject, older in ((b"s.11.49", 600), (b"s.11.49", 601), (b"s.5.7", 258), (b"new", 0)):
            read.clear()
            await publish(stream, (subject, b"sum", headers(Nats_Rollup="sub")))
            assert read == [older] * bool(older)
            assert not older or not stream.reading.is_live(older)
            assert stream.reading.subject_counts(subject.decode()) == {subject: 1}
        read.clear()
        await publish(stream, (b"s.3.*", b"sum", headers(Nats_Rollup="sub")))
        assert sorted(read) == list(range(151, 201)), "one look for each of the fifty messages that match"
        assert stream.reading.subject_counts("s.3.*") == {b"s.3.*": 1}
        read.clear()
        await publish(stream, (b"s.*.*", b"sum", headers(Nats_Rollup="sub")))
        assert len(read) <= 20, "one pass for many"
        assert stream.reading.subject_counts(">") == {b"s.*.*": 1, b"new": 1}
