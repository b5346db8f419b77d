"""What checkpoint and log amount to, also where the log is damaged: nothing wrong is ever served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.model.stream import StreamConfig
from headwater.stream.replay import keeps_history
from headwater.stream.store import Store
from headwater.stream.stream import Stream
from headwater.stream.subjects import HISTORY_LIMIT
from stream.streams import SECOND, Workshop, config_of, everything, headers, publish, seqs_of


def spoil(stream_directory: Path, what: bytes, where: str = "log") -> None:
    """Flip a bit in the stored bytes of a payload."""
    hits = [path for path in (stream_directory / where).rglob("*") if path.is_file()]
    hits = [path for path in hits if what in path.read_bytes()]
    assert hits, f"{what!r} is not in the {where}"
    for path in hits:
        stored = bytearray(path.read_bytes())
        stored[stored.index(what)] ^= 1
        path.write_bytes(stored)


def replayed(workshop: Workshop, config: StreamConfig) -> Store:
    return Store(workshop.directory / config.name, config, workshop.services)


async def each(stream: Stream, *items: tuple[bytes, bytes] | tuple[bytes, bytes, bytes]) -> None:
    """Publish each message in a batch of its own."""
    for item in items:
        await publish(stream, item)


async def test_ids_times_to_live_and_consumers_are_replayed_from_the_log(workshop: Workshop) -> None:
    config = config_of(allow_msg_ttl=True)
    async with workshop.stream(config) as stream:
        await publish(
            stream,
            (b"a", b"1", headers(Nats_Msg_Id="one", Nats_TTL="30")),
            (b"a", b"2", headers(Nats_TTL="never")),
        )
        stream.consumers.record({"C": b"made", "D": b"made"})
        stream.consumers.record({"C": b"acked", "D": b""})
        await stream.publishing.settled()
    store = replayed(workshop, config)
    now = workshop.clock.now_ns()
    assert store.ledger.dedupe.find(b"one", now) == 1
    assert store.ledger.expiry.next_ns() == now + 30 * SECOND
    assert list(store.ledger.expiry.never) == [2]
    assert store.ledger.consumers == {"C": [b"made", b"acked"]}
    store.close()


async def test_times_to_live_mean_nothing_where_they_are_not_allowed(workshop: Workshop) -> None:
    config = config_of(allow_msg_ttl=True)
    async with workshop.stream(config) as stream:
        await publish(stream, (b"a", b"1", headers(Nats_TTL="30")))
    store = replayed(workshop, config_of())
    assert store.ledger.expiry.next_ns() is None
    store.close()


async def test_a_removal_of_everything_is_replayed_before_what_came_with_it(workshop: Workshop) -> None:
    config = config_of(allow_rollup_hdrs=True)
    async with workshop.stream(config) as stream:
        await publish(stream, (b"a", b"1"), (b"b", b"2"))
        await publish(stream, (b"c", b"3"), (b"d", b"4", headers(Nats_Rollup="all")), (b"e", b"5"))
        await stream.retention.purge(seq=20)
        await publish(stream, (b"f", b"6"))
    store = replayed(workshop, config)
    assert (store.ledger.first_seq, store.ledger.last_seq, store.ledger.messages) == (20, 20, 1)
    store.close()


async def test_of_a_damaged_batch_the_sequences_are_lost_and_the_rest_is_served(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    config = config_of()
    async with workshop.stream(config) as stream:
        await each(stream, (b"a", b"first"), (b"a", b"second"), (b"b", b"third"))
    spoil(workshop.directory / "S", b"second")
    async with workshop.stream(config) as stream:
        state = await stream.reading.state()
        assert (state.messages, state.first_seq, state.last_seq) == (2, 1, 3)
        assert state.lost is not None
        assert state.lost.msgs == (2,)
        assert await seqs_of(stream) == [1, 3]
        assert await stream.reading.message(2) is None
        assert stream.reading.subject_counts(">") == {b"a": 1, b"b": 1}
        workshop.answers.frames.clear()
        await publish(stream, (b"a", b"fourth"))
        assert workshop.answers.take()[b"r0"]["seq"] == 4
    assert "sequences 2 to 2 are lost" in caplog.text


async def test_a_damaged_batch_that_was_folded_is_taken_from_the_table(workshop: Workshop) -> None:
    config = config_of()
    async with workshop.stream(config) as stream:
        stream._store.checkpoint_bytes = 1 << 40  # so that the fold leaves the log as it is
        await each(stream, (b"a", b"first"), (b"a", b"second"), (b"b", b"third"))
        await stream.folder.fold()
        await publish(stream, (b"c", b"fourth"))
        before, state = await everything(stream), await stream.reading.state()
    spoil(workshop.directory / "S", b"second")
    async with workshop.stream(config) as stream:
        assert await everything(stream) == before
        assert await stream.reading.state() == state


async def test_a_damaged_removal_does_not_make_the_sums_wrong(workshop: Workshop) -> None:
    config = config_of(max_msgs=3)
    async with workshop.stream(config) as stream:
        await each(stream, *[(b"a", b"message %d" % n) for n in range(1, 7)])
        assert await seqs_of(stream) == [4, 5, 6]
    spoil(workshop.directory / "S", b"message 4")
    async with workshop.stream(config) as stream:
        messages, state = await everything(stream), await stream.reading.state()
        assert [m.data for m in messages] == [b"message 5", b"message 6"]
        assert state.messages == 2
        assert state.bytes == sum(30 + len(m.subject) + len(m.data) for m in messages)
        assert stream.reading.subject_counts(">") == {b"a": 2}


async def test_a_removal_of_what_was_damaged_takes_nothing_else_with_it(workshop: Workshop) -> None:
    config = config_of()
    async with workshop.stream(config) as stream:
        await each(stream, (b"a", b"first"), (b"a", b"second"))
        await stream.retention.remove(2)
    spoil(workshop.directory / "S", b"second")
    async with workshop.stream(config) as stream:
        state = await stream.reading.state()
        assert (state.messages, state.first_seq, state.last_seq) == (1, 1, 2)
        assert await seqs_of(stream) == [1]


async def test_a_record_that_the_end_of_the_log_cuts_off_was_never_acknowledged(workshop: Workshop) -> None:
    config = config_of()
    async with workshop.stream(config) as stream:
        await each(stream, (b"a", b"first"), (b"a", b"second"))
    segment = max((workshop.directory / "S" / "log").iterdir())
    segment.write_bytes(segment.read_bytes()[:-1])
    async with workshop.stream(config) as stream:
        state = await stream.reading.state()
        assert (state.last_seq, state.lost) == (1, None)


async def test_a_damaged_table_costs_only_what_cannot_be_read_when_sums_are_counted_again(
    workshop: Workshop,
) -> None:
    config = config_of()
    async with workshop.stream(config) as stream:
        stream._store.checkpoint_bytes = 1 << 40
        await each(stream, (b"a", b"in the table"), (b"a", b"second"))
        await stream.folder.fold()
        await each(stream, (b"b", b"third"), (b"b", b"fourth"))
    spoil(workshop.directory / "S", b"in the table", "table")
    spoil(workshop.directory / "S", b"third")
    async with workshop.stream(config) as stream:
        state = await stream.reading.state()
        assert state.lost is not None
        assert state.lost.msgs == (1, 2, 3)
        assert (state.messages, await seqs_of(stream)) == (1, [4])


@pytest.mark.parametrize(
    ("limit", "kept"), [(-1, False), (0, False), (1, True), (HISTORY_LIMIT, True), (HISTORY_LIMIT + 1, False)]
)
def test_sequences_by_subject_are_kept_only_where_they_are_few(limit: int, kept: bool) -> None:
    assert keeps_history(config_of(max_msgs_per_subject=limit)) == kept


async def test_a_limit_by_subject_declared_later_finds_the_history_it_needs(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
        await stream.checkpoint()
    limited: dict[str, Any] = {"max_msgs_per_subject": 2}
    store = replayed(workshop, config_of(**limited))
    assert store.ledger.subjects.history == {b"a": ((1, 32), (3, 32)), b"b": ((2, 32),)}
    store.close()
    async with workshop.stream(**limited) as stream:
        await publish(stream, (b"a", b"4"))
        assert await seqs_of(stream) == [2, 3, 4]
        await stream.checkpoint()
    store = replayed(workshop, config_of())
    assert store.ledger.subjects.history is None
    store.close()
