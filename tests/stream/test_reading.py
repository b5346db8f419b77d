"""What a stream answers is durable, and follows what was removed."""

from __future__ import annotations

from errno import ENOSPC
from pathlib import Path

from headwater.errors import DiskError
from stream.streams import SECOND, Workshop, publish


async def test_the_state_follows_what_is_removed_also_after_a_fold(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        times = []
        for n in range(4):
            workshop.clock.advance(SECOND)
            times.append(workshop.clock.now_ns())
            await publish(stream, (b"a.%d" % n, b"x"))
        await stream.folder.fold()
        await stream.retention.remove(1)
        await stream.retention.remove(3)
        state = await stream.reading.state()
        assert (state.messages, state.bytes, state.num_subjects) == (2, 2 * 34, 2)
        assert (state.first_seq, state.first_ts) == (2, times[1])
        assert (state.last_seq, state.last_ts) == (4, times[3])
        assert (state.num_deleted, stream.reading.deleted()) == (1, [3])
        assert (stream.reading.subject_at(2), stream.reading.subject_at(3)) == (b"a.1", None)


async def test_only_what_is_durable_is_answered(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        stream.publishing.offer([(b"a", b"", b"", b"1")])
        assert (stream.reading.durable_seq, stream.publishing.backlog_bytes > 0) == (0, True)
        message = await stream.reading.message(1)
        assert message is not None
        assert (stream.reading.durable_seq, stream.publishing.backlog_bytes) == (1, 0)
        await stream.publishing.caught_up()


async def test_a_question_during_a_refused_write_is_asked_again_after_the_rebuild(
    workshop: Workshop,
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"))
        generation, log = stream.reading.generation, stream._store.log
        sync = log.sync

        def refused() -> None:
            log.sync = sync  # type: ignore[method-assign]
            raise DiskError(Path("log"), "sync", ENOSPC)

        log.sync = refused  # type: ignore[method-assign]
        stream.publishing.offer([(b"b", b"r", b"", b"2")])
        assert stream.reading.durable_bytes is None
        last = await stream.reading.last(">")
        assert last is not None
        assert (last.data, stream.reading.last_seq, await stream.reading.pending(1)) == (b"1", 1, 1)
        assert stream.reading.generation > generation
        size = (await stream.reading.state()).bytes
        assert stream.reading.known_bytes == size


async def test_subjects_are_counted_the_same_at_once_and_in_slices(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a.%d" % (n % 3), b"") for n in range(7)], (b"b", b""))
        assert stream.reading.subject_counts("a.*") == {b"a.0": 3, b"a.1": 2, b"a.2": 2}
        assert await stream.reading.counted_subjects("a.*") == stream.reading.subject_counts("a.*")
