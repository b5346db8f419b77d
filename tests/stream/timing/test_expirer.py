"""Messages are removed when they expire: by the stream's limit, or by their own."""

from __future__ import annotations

import shutil

import pytest

from headwater.errors import DiskError
from headwater.model import headers as header_block
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.model.times import format_time
from headwater.stream.stream import Stream
from stream.streams import SECOND, Workshop, config_of, everything, headers, publish, seqs_of
from table.samples import columns_of


async def test_messages_expire_by_age_unless_they_never_do(workshop: Workshop) -> None:
    async with workshop.stream(max_age=10 * SECOND, allow_msg_ttl=True) as stream:
        assert stream.retention.next_expiry_ns() is None
        start = workshop.clock.now_ns()
        await publish(stream, (b"a", b""), (b"a", b"", headers(Nats_TTL="never")))
        workshop.clock.advance(4 * SECOND)
        await publish(stream, (b"a", b""))
        assert stream.retention.next_expiry_ns() == start + 10 * SECOND
        workshop.clock.advance(6 * SECOND)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
        assert await seqs_of(stream) == [2, 3]
        assert stream.retention.next_expiry_ns() == start + 14 * SECOND
        workshop.clock.advance(4 * SECOND)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
        assert await seqs_of(stream) == [2]
        due = stream.retention.next_expiry_ns()
        assert due is None or due > workshop.clock.now_ns(), "what never expires is not looked at each time"


async def test_what_arrives_with_an_old_time_after_all_had_expired_is_due_by_that_time(
    workshop: Workshop,
) -> None:
    async with workshop.stream(max_age=10 * SECOND) as stream:
        await publish(stream, (b"a", b"1"))
        workshop.clock.advance(10 * SECOND)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
        old_ns = workshop.clock.now_ns() - 6 * SECOND
        await stream.publishing.load(columns_of([Message(2, old_ns, b"a", b"", b"copied")]))
        assert stream.retention.next_expiry_ns() == old_ns + 10 * SECOND


async def test_a_time_to_live_of_its_own_ends_a_message_before_its_age_does(workshop: Workshop) -> None:
    async with workshop.stream(max_age=100 * SECOND, allow_msg_ttl=True) as stream:
        start = workshop.clock.now_ns()
        await publish(stream, (b"a", b"1", headers(Nats_TTL="5")), (b"a", b"2"))
        assert stream.retention.next_expiry_ns() == start + 5 * SECOND
        workshop.clock.advance(5 * SECOND - 1)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 0
        workshop.clock.advance(1)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
        assert await seqs_of(stream) == [2]


async def test_the_last_message_of_a_subject_that_expires_leaves_a_marker_which_leaves_none(
    workshop: Workshop,
) -> None:
    async with workshop.stream(
        max_age=10 * SECOND, allow_msg_ttl=True, allow_rollup_hdrs=True, subject_delete_marker_ttl=5 * SECOND
    ) as stream:
        await publish(stream, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
        workshop.clock.advance(10 * SECOND + 3)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 3
        markers = await everything(stream)
        assert [(m.seq, m.data) for m in markers] == [(4, b""), (5, b"")]
        assert {m.subject for m in markers} == {b"a", b"b"}
        assert {header_block.get(m.headers, b"Nats-Marker-Reason") for m in markers} == {b"MaxAge"}
        workshop.clock.advance(6 * SECOND)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 2
        assert (await stream.reading.state()).messages == 0


async def test_a_kill_while_a_message_is_being_removed_costs_it_no_end(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint that is written at this time still contains the message's expiry."""
    config = config_of(allow_msg_ttl=True)
    killed = workshop.directory / "killed"
    async with workshop.stream(config) as stream:
        await publish(stream, (b"a", b"1", headers(Nats_TTL="5")), (b"b", b"2"))
        await stream.folder.fold()
        workshop.clock.advance(5 * SECOND)
        view = stream._store.view
        run_at = view.run_at

        async def after_a_checkpoint(seq: int) -> Run | None:
            monkeypatch.setattr(view, "run_at", run_at)
            await stream.checkpoint()
            shutil.copytree(stream.directory, killed / config.name)
            return await run_at(seq)

        monkeypatch.setattr(view, "run_at", after_a_checkpoint)
        assert await stream.retention.expire(workshop.clock.now_ns()) == 1
    again = await Stream.open(killed / config.name, config, created_ns=0, services=workshop.services)
    assert await seqs_of(again) == [1, 2]
    assert await again.retention.expire(workshop.clock.now_ns()) == 1
    assert await seqs_of(again) == [2]
    await again.close()


async def test_what_cannot_be_read_when_it_is_due_leaves_once_it_can(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a temporary read error, messages still expire and schedules still publish."""
    async with workshop.stream(
        allow_msg_ttl=True, allow_msg_schedules=True, allow_rollup_hdrs=True
    ) as stream:
        at = format_time(workshop.clock.now_ns() + 5 * SECOND)
        schedule = headers(Nats_Schedule=f"@at {at}", Nats_Schedule_Target="out")
        await publish(stream, (b"a", b"1", headers(Nats_TTL="5")), (b"in", b"2", schedule), (b"b", b"3"))
        workshop.clock.advance(5 * SECOND)

        async def refuse(seq: int) -> None:
            raise DiskError(stream.directory, "read", 5)

        with monkeypatch.context() as patch:
            patch.setattr(stream._store.view, "run_at", refuse)
            with pytest.raises(DiskError):
                await stream.retention.expire(workshop.clock.now_ns())
        due_ns = stream.retention.next_expiry_ns()
        assert due_ns is not None
        assert due_ns <= workshop.clock.now_ns()
        await stream.retention.expire(workshop.clock.now_ns())
        assert [message.subject for message in await everything(stream)] == [b"b", b"out"]
        assert stream.retention.next_expiry_ns() is None
