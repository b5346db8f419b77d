"""A stream that linked a file of its origin cannot be distinguished from one that copied the messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.model.adopted import Adopted
from headwater.model.message import Message
from headwater.model.stream import Storage
from headwater.stream.stream import Stream
from stream.streams import SECOND, Workshop, config_of, everything, publish, seqs_of
from table.links import link_of, sourced, staged_link
from table.samples import columns_of, message

CONFIG = config_of(duplicate_window=0)
SEQS = range(95, 1005)


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    workshop = Workshop(tmp_path)
    yield workshop
    workshop.close()


async def link(stream: Stream, *ranges: Sequence[int], names: str = "f") -> list[Message]:
    """Have a stream adopt linked files; return what their messages are then."""
    staging = stream.directory / "staging"
    files = [link_of(staging, seqs, f"{names}{number}") for number, seqs in enumerate(ranges)]
    return await adopted(stream, files, [message(seq) for seqs in ranges for seq in seqs])


async def adopted(stream: Stream, files: Sequence[Adopted], messages: Sequence[Message]) -> list[Message]:
    copying, before = stream.replica, (await stream.reading.state()).last_seq
    cursor = copying.cursor("up")
    taken = await copying.adopt("up", cursor, files, cursor + b"+", mirrored=False)
    assert taken == len(messages)
    (ts,) = {m.ts for m in await everything(stream, before + 1)} or {0}
    return [sourced(m, seq, ts) for seq, m in enumerate(messages, before + 1)]


async def put(workshop: Workshop, messages: Sequence[Message], **fields: Any) -> Stream:
    """Return a stream into which the very same messages were put one by one."""
    stream = await workshop.open(config_of(**{"name": "PLAIN", "duplicate_window": 0, **fields}))
    await stream.publishing.load(columns_of(messages))
    return stream


async def test_its_messages_are_as_if_they_had_been_copied(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        expected = await link(stream, SEQS)
        assert await everything(stream) == expected
        assert expected[0].ts == workshop.clock.now_ns() // 1000 * 1000
        one = await stream.reading.message(9)
        assert one == expected[8]
        assert one.headers.endswith(b"Nats-Stream-Source: ORDERS 103 > > orders.5 Ab1\r\n\r\n")
        assert await stream.reading.last("orders.3") == [m for m in expected if m.subject == b"orders.3"][-1]
        assert await stream.reading.next("orders.3", 500) == next(
            m for m in expected if m.subject == b"orders.3" and m.seq >= 500
        )
    async with workshop.stream(CONFIG) as stream:
        assert await everything(stream) == expected


@pytest.mark.parametrize("storage", [Storage.FILE, Storage.MEMORY])
async def test_its_sums_are_those_of_the_very_same_messages(workshop: Workshop, storage: Storage) -> None:
    async with workshop.stream(config_of(duplicate_window=0, storage=storage)) as stream:
        expected = await link(stream, SEQS, range(5000, 5100))
        plain = await put(workshop, expected, storage=storage)
        state = await stream.reading.state()
        assert state == await plain.reading.state()
        assert stream.reading.subject_counts(">") == plain.reading.subject_counts(">")
        assert (await stream.reading.state()).first_ts == expected[0].ts
        for subject in stream.reading.subject_counts(">"):
            assert await stream.reading.last(subject.decode()) == await plain.reading.last(subject.decode())
        await plain.close()
    if storage == Storage.FILE:
        async with workshop.stream(CONFIG) as stream:
            assert await stream.reading.state() == state


@pytest.mark.parametrize("restarts", [False, True])
async def test_nothing_is_left_of_its_size_once_all_messages_are_removed(
    workshop: Workshop, restarts: bool
) -> None:
    stream = await workshop.open(CONFIG)
    expected = await link(stream, range(95, 115))
    plain = await put(workshop, expected)
    for m in expected:
        assert await stream.retention.remove(m.seq)
        assert await plain.retention.remove(m.seq)
        if restarts and m.seq % 7 == 0:
            await stream.close()
            stream = await workshop.open(CONFIG)
        assert await stream.reading.state() == await plain.reading.state()
    assert (await stream.reading.state()).bytes == 0
    await stream.close()
    await plain.close()


async def test_a_purge_of_single_subjects_leaves_the_same_as_in_other_streams(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        plain = await put(workshop, await link(stream, SEQS))
        for subject in sorted(stream.reading.subject_counts(">")):
            await stream.retention.purge(filter=subject.decode())
            await plain.retention.purge(filter=subject.decode())
            assert await stream.reading.state() == await plain.reading.state()
        assert (await stream.reading.state()).bytes == (await stream.reading.state()).messages == 0
        await plain.close()


async def test_a_message_in_it_is_deleted_and_erased(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        expected = await link(stream, SEQS)
        paths = [stream._store.table.directory / file.path for file in stream._store.table.files]
        await stream.retention.remove(50)
        assert await stream.reading.message(50) is None
        left = [m for m in expected if m.seq != 50]
        assert await everything(stream) == left
        for _ in range(2):
            await stream.folder.tidy()
            workshop.clock.advance(3600 * SECOND)
        assert await everything(stream) == left
        assert [file.copied for file in stream._store.table.files] == [None]
        assert not any(path.exists() for path in paths)
    async with workshop.stream(CONFIG) as stream:
        assert await everything(stream) == left


async def test_local_messages_stand_before_between_and_behind(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"local", b"1"))
        first = await link(stream, range(20, 60), names="a")
        await publish(stream, (b"local", b"2"), (b"local", b"3"))
        second = await link(stream, range(60, 99), names="b")
        await publish(stream, (b"local", b"4"))
        found = await everything(stream)
        assert found[1:41] == first
        assert found[43:82] == second
        assert [m.data for m in found if m.subject == b"local"] == [b"1", b"2", b"3", b"4"]
        times = [m.ts for m in found]
        assert times == sorted(times)
        for change in (stream.folder.fold, stream.folder.compact, stream.checkpoint, stream.folder.compact):
            await change()
            assert await everything(stream) == found
        state = await stream.reading.state()
    async with workshop.stream(CONFIG) as stream:
        assert await everything(stream) == found
        assert await stream.reading.state() == state


async def test_a_time_is_found_before_in_and_behind_it(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"local", b""))
        workshop.clock.advance(SECOND)
        (one, *_) = await link(stream, range(1, 20_000), names="a")
        workshop.clock.advance(SECOND)
        (two, *_) = await link(stream, range(30_000, 30_100), names="b")
        workshop.clock.advance(SECOND)
        await publish(stream, (b"local", b""))
        (first, last) = [m for m in await everything(stream) if m.subject == b"local"]
        assert first.ts < one.ts < two.ts < last.ts
        for reopened in (False, True):
            at = [
                await stream.reading.seq_at(ts)
                for ts in (0, first.ts + 1, one.ts, one.ts + 1, two.ts, two.ts + 1)
            ]
            assert at == [1, 2, 2, two.seq, two.seq, last.seq], reopened
            await stream.folder.fold()


async def test_its_time_is_never_before_the_message_before_it(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, *[(b"local", b"")] * 3000)
        before = (await stream.reading.state()).last_ts
        assert before > workshop.clock.now_ns(), "as many messages at one moment have later times"
        (first, *_) = await link(stream, range(1, 10))
        assert before <= first.ts < before + 1000
        await publish(stream, (b"local", b""))
        assert (await stream.reading.state()).last_ts > first.ts


async def test_times_continue_from_one_written_file_to_the_next(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream:
        await publish(stream, (b"local", b""))
        staging = stream.directory / "staging"
        now = workshop.clock.now_ns()
        workshop.clock.advance(60 * SECOND)

        def written(number: int, ts: int) -> Adopted:
            messages = [message(seq)._replace(ts=ts + seq) for seq in range(10)]
            return staged_link(staging, messages, f"w{number}", linked=False)

        def linked(number: int) -> Adopted:
            return link_of(staging, range(100, 110), f"l{number}")

        files = [
            linked(1),
            written(1, now + 5 * SECOND),
            linked(2),
            linked(3),
            written(2, now + 9 * SECOND),
            linked(4),
        ]
        assert await stream.replica.adopt("up", b"", files, b"c", mirrored=False) == 60
        times = [m.ts for m in await everything(stream)]
        assert times == sorted(times)
        assert times[-1] == workshop.clock.now_ns() // 1000 * 1000
        assert (await stream.reading.state()).last_ts == times[-1]


@pytest.mark.parametrize(
    "fields",
    [{"max_msgs": 100}, {"max_bytes": 20_000}, {"max_age": 10 * SECOND}],
    ids=lambda f: next(iter(f)),
)
async def test_limits_hold_over_it_as_over_any_messages(workshop: Workshop, fields: dict[str, Any]) -> None:
    async with (
        workshop.stream(duplicate_window=0, **fields) as stream,
        workshop.stream(CONFIG_B) as unlimited,
    ):
        whole = await link(unlimited, SEQS)
        await link_quietly(stream, SEQS)
        plain = await put(workshop, whole, **fields)
        for seconds in (0, 9, 2):
            workshop.clock.advance(seconds * SECOND)
            await stream.retention.expire(workshop.clock.now_ns())
            await plain.retention.expire(workshop.clock.now_ns())
            assert await seqs_of(stream) == await seqs_of(plain)
            assert (await stream.reading.state()).bytes == (await plain.reading.state()).bytes
        await publish(stream, (b"local", b"x"))
        await publish(plain, (b"local", b"x"))
        assert await stream.reading.state() == await plain.reading.state()
        assert (await stream.reading.state()).messages < len(SEQS)
        await plain.close()


CONFIG_B = config_of(name="B", duplicate_window=0)


async def link_quietly(stream: Stream, seqs: Sequence[int]) -> None:
    """Have a stream adopt a linked file of which little may be left then."""
    file = link_of(stream.directory / "staging", seqs)
    await stream.replica.adopt("up", b"", [file], b"c", mirrored=False)


async def test_a_restart_at_any_point_changes_nothing(workshop: Workshop) -> None:
    expected: list[Message] = []
    for number in range(6):
        async with workshop.stream(CONFIG) as stream:
            assert await everything(stream) == expected
            await publish(stream, (b"local", b"%d" % number))
            expected.append((await everything(stream))[-1])
            expected += await link(stream, range(100 * number + 1, 100 * number + 50), names=f"f{number}-")
        async with workshop.stream(CONFIG) as stream:
            assert await everything(stream) == expected
            if number % 2:
                await stream.checkpoint()
            if number % 3 == 2:
                await stream.folder.compact()


async def test_a_crash_between_log_and_table_leaves_it_with_the_time_that_the_log_says(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: Any, **__: Any) -> None:
        raise Crash

    for number, step in enumerate(("adopt", "commit")):
        config = config_of(name=f"S{number}", duplicate_window=0)
        async with workshop.stream(config) as stream:
            with monkeypatch.context() as patch:
                patch.setattr(stream._store.table, step, crash)
                with pytest.raises(Crash):
                    await link_quietly(stream, SEQS)
        ts = workshop.clock.now_ns() // 1000 * 1000
        workshop.clock.advance(SECOND)
        async with workshop.stream(config) as stream:
            expected = [sourced(message(seq), at, ts) for at, seq in enumerate(SEQS, 1)]
            assert await everything(stream) == expected
            assert list((stream.directory / "staging").iterdir()) == []


async def test_a_mirror_that_links_it_on_has_the_same_and_counts_the_same(workshop: Workshop) -> None:
    async with workshop.stream(CONFIG) as stream, workshop.stream(CONFIG_B) as mirror:
        expected = await link(stream, SEQS)
        staging = mirror.directory / "staging"
        placed = link_of(staging, SEQS).behind(0, 0, expected[0].ts)
        await mirror.replica.adopt("up", b"", [placed], b"c", mirrored=True)
        assert await everything(mirror) == expected
        assert await mirror.reading.state() == await stream.reading.state()
