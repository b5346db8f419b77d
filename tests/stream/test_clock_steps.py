"""A clock that was ahead for a while and is set back holds up nothing: not times, limits, ids or lookups."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable

from headwater.clock import AHEAD_NS
from headwater.model.message import Message
from headwater.stream.stream import Stream
from headwater.stream.timing.expirer import Expirer
from stream.streams import SECOND, Workshop, config_of, everything, headers, publish, seqs_of
from table.samples import columns_of

YEARS = 10 * 365 * 86_400 * SECOND
FOLDED = pytest.mark.parametrize("folded", [False, True], ids=["in the log", "in the table"])


async def jumped(workshop: Workshop, stream: Stream, *, folded: bool) -> int:
    """Store two messages at the right time, two in ten years; return when the clock was set back."""
    await publish(stream, (b"a", b"1"))
    workshop.clock.advance(SECOND)
    await publish(stream, (b"a", b"2"))
    workshop.clock.step(YEARS)
    await publish(stream, (b"a", b"3", headers(Nats_Msg_Id="three")))
    workshop.clock.advance(SECOND)
    await publish(stream, (b"b", b"4"))
    if folded:
        await stream.folder.fold()
    workshop.clock.step(-YEARS)
    workshop.clock.advance(SECOND)
    return workshop.clock.now_ns()


@FOLDED
async def test_new_messages_get_the_time_of_a_clock_that_was_set_back(
    workshop: Workshop, folded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop.stream() as stream:
        now = await jumped(workshop, stream, folded=folded)
        await publish(stream, (b"a", b"5"), (b"a", b"6"))
        assert [m.ts - now for m in await everything(stream, 5)] == [0, 1]
        assert (await stream.reading.state()).last_ts == now + 1
    async with workshop.stream() as stream:
        workshop.clock.advance(SECOND)
        await publish(stream, (b"a", b"7", headers(Other="1")), (b"b", b"8"))
        assert [m.ts - now for m in await everything(stream, 7)] == [SECOND, SECOND + 1]
    said = [record.message for record in caplog.records if "the clock was set back" in record.message]
    assert len(said) == 1, said


async def test_a_message_that_is_refused_first_does_not_bring_the_wrong_time_back(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        now = await jumped(workshop, stream, folded=False)
        wrong = headers(Nats_Expected_Last_Sequence="77")
        await publish(stream, (b"a", b"no", wrong), (b"a", b"no", wrong), (b"a", b"5"))
        assert (await everything(stream, 5))[0].ts == now + 2


async def test_a_clock_that_was_set_back_a_little_does_not_make_times_run_backwards(
    workshop: Workshop,
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"))
        workshop.clock.step(-AHEAD_NS)
        await publish(stream, (b"a", b"2"))
        one, two = await everything(stream)
        assert two.ts == one.ts + 1


@FOLDED
async def test_a_time_leads_to_the_first_message_that_is_not_older(workshop: Workshop, folded: bool) -> None:
    async with workshop.stream() as stream:
        now = await jumped(workshop, stream, folded=folded)
        await publish(stream, (b"a", b"5"))
        workshop.clock.advance(SECOND)
        await publish(stream, (b"a", b"6"))
        assert await stream.reading.seq_at(0) == 1
        assert await stream.reading.seq_at(now) == 3, "it is not older, whatever is to be thought of it"
        await stream.retention.remove(3)
        assert await stream.reading.seq_at(now) == 4
        await stream.retention.remove(4)
        assert await stream.reading.seq_at(now - 1) == 5
        assert await stream.reading.seq_at(now) == 5
        assert await stream.reading.seq_at(now + 1) == 6
        assert await stream.reading.seq_at(now + SECOND + 1) == 7
    async with workshop.stream() as stream:
        assert await stream.reading.seq_at(now + 1) == 6


async def test_a_time_leads_to_the_same_message_in_the_log_and_in_the_table(workshop: Workshop) -> None:
    order = random.Random(6)
    times = [1_700_000_000 * SECOND + order.randrange(60) * SECOND for _ in range(60)]
    live = [Message(seq, ts, b"a", b"", b"x" * order.randrange(9000)) for seq, ts in enumerate(times, 1)]
    async with workshop.stream() as stream:
        for start in range(0, 60, 7):
            await stream.publishing.load(columns_of(live[start : start + 7]))
            if start in (14, 35):
                await stream.folder.fold()
        for seq in (1, 2, 9, 20, 21, 22, 40, 59):
            await stream.retention.remove(seq)
        kept = [m for m in live if m.seq not in (1, 2, 9, 20, 21, 22, 40, 59)]
        for wanted in sorted({*times, times[0] + 1, times[0] - 1, max(times) + 1}):
            later = [m.seq for m in kept if m.ts >= wanted]
            assert await stream.reading.seq_at(wanted) == (later[0] if later else 61)


@FOLDED
async def test_messages_behind_those_from_the_future_expire_by_their_age(
    workshop: Workshop, folded: bool
) -> None:
    config = config_of(max_age=10 * SECOND)
    async with workshop.stream(config) as stream:
        now = await jumped(workshop, stream, folded=folded)
        await publish(stream, (b"a", b"5"))
        workshop.clock.advance(9 * SECOND)
        await publish(stream, (b"a", b"6"))
        due = stream.retention.next_expiry_ns()
        assert due is not None
        assert due <= workshop.clock.now_ns()
        assert await stream.retention.expire(workshop.clock.now_ns()) == 2
        assert stream.retention.next_expiry_ns() == now + 10 * SECOND
        workshop.clock.advance(SECOND)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
        assert await seqs_of(stream) == [3, 4, 6]
    async with workshop.stream(config) as stream:
        workshop.clock.advance(9 * SECOND)
        due = stream.retention.next_expiry_ns()
        assert due is not None
        assert due <= workshop.clock.now_ns(), "the first message, from the future, does not say when"
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
        assert await seqs_of(stream) == [3, 4]
        await publish(stream, (b"a", b"7"))
        assert await stream.retention.expire(workshop.clock.now_ns()) == 0
        assert (stream.retention.next_expiry_ns() or 0) > workshop.clock.now_ns(), (
            "nothing is looked at all the time"
        )
        workshop.clock.advance(YEARS + 20 * SECOND)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 3, "they go when their time has come"


async def test_a_round_does_not_read_again_what_stays_for_years(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop.stream(max_age=10 * SECOND) as stream:
        await jumped(workshop, stream, folded=True)
        workshop.clock.advance(10 * SECOND)
        await publish(stream, (b"a", b"5"))
        expirer: Expirer = stream.retention._expirer
        read: list[int] = []
        run_at = expirer._store.view.run_at

        async def noted(seq: int) -> object:
            read.append(seq)
            return await run_at(seq)

        monkeypatch.setattr(expirer._store.view, "run_at", noted)
        for _ in range(3):
            await stream.retention.expire(workshop.clock.now_ns())
        assert read == [1, 5, 5, 5]


async def test_an_id_from_the_future_is_remembered_for_its_window_and_no_longer(workshop: Workshop) -> None:
    async with workshop.stream(duplicate_window=10 * SECOND) as stream:
        await jumped(workshop, stream, folded=False)
        five, three = headers(Nats_Msg_Id="five"), headers(Nats_Msg_Id="three")
        await publish(stream, (b"a", b"5", five), (b"a", b"3 again", three))
        assert await seqs_of(stream) == [1, 2, 3, 4, 5]
        workshop.clock.advance(11 * SECOND)
        await publish(stream, (b"a", b"6", five), (b"a", b"7", three))
        assert await seqs_of(stream) == [1, 2, 3, 4, 5, 6, 7]


async def test_the_tables_statistics_bound_times_that_do_not_ascend(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        now = await jumped(workshop, stream, folded=False)
        await publish(stream, (b"a", b"5"))
        await stream.folder.fold()
        times = [m.ts for m in await everything(stream)]
        (file,) = stream._store.table.files
        assert file.first_ts <= min(times)
        assert file.last_ts >= max(times)
        table = DeltaTable(stream._store.table.directory)
        found = table.to_pyarrow_dataset().to_table(
            filter=ds.field("time") > datetime.fromtimestamp(now / SECOND + 86_400, UTC)
        )
        assert found.num_rows == 2
