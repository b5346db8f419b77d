"""A staged file becomes part of a stream as it is: at its place, exactly once, whatever happens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from doors import services
from headwater.disk import RealDisk
from headwater.errors import DiskError
from headwater.model.adopted import Adopted
from headwater.model.message import Message
from headwater.model.stream import StreamConfig
from headwater.stream.replica.importer import CursorMovedError
from headwater.stream.stream import Stream
from headwater.table.adopted_sums import adopted_of
from headwater.table.parquet import FileWriter
from table.samples import columns

CONFIG = StreamConfig(name="T", subjects=("t",))


@asynccontextmanager
async def opened(directory: Path, config: StreamConfig = CONFIG) -> AsyncIterator[Stream]:
    async with services(directory) as shared:
        stream = await Stream.open(directory / "T", config, created_ns=1, services=shared)
        yield stream
        await stream.close()


def staged(directory: Path, offsets: list[int], name: str = "one") -> Adopted:
    """Return the sums of a file that is now in the staging directory of the stream."""
    staging = directory / "T" / "staging"
    RealDisk().mkdir(staging)
    part = columns(offsets)
    writer = FileWriter(staging / "unnamed", 0)
    writer.append(part)
    stats = writer.finish()
    assert stats.sums is not None
    path = staging / f"{name}-{stats.footer_crc:08x}.parquet"
    (staging / "unnamed").rename(path)
    return adopted_of(path.name, stats.content.size_bytes, stats.sums)


async def held(stream: Stream) -> list[Message]:
    return [m async for many in stream.reading.scan(1) for m in many]


async def publish(stream: Stream, count: int) -> None:
    stream.publishing.offer([(b"t", b"", b"", b"local %d" % number) for number in range(count)])
    await stream.publishing.settled()


async def test_a_mirrored_file_keeps_its_sequences_times_and_gaps(tmp_path: Path) -> None:
    offsets = [3, 4, 7, *range(10, 500)]
    async with opened(tmp_path) as stream:
        taken = await stream.replica.adopt("up", b"", [staged(tmp_path, offsets)], b"c1", mirrored=True)
        assert taken == len(offsets)
        assert [m.seq for m in await held(stream)] == offsets
        assert stream.reading.deleted() == [5, 6, 8, 9]
        state = await stream.reading.state()
        assert (state.first_seq, state.last_seq, state.messages) == (3, 499, len(offsets))
        assert stream.replica.cursor("up") == b"c1"


async def test_sums_say_the_same_as_messages_taken_in_one_by_one(tmp_path: Path) -> None:
    offsets = list(range(1, 300))
    async with opened(tmp_path / "a") as one, opened(tmp_path / "b") as two:
        await one.replica.adopt("up", b"", [staged(tmp_path / "a", offsets)], b"c", mirrored=True)
        await two.replica.take("up", b"", columns(offsets), lambda seq: b"c", 299, mirrored=True)
        assert await one.reading.state() == await two.reading.state()
        assert one.reading.subject_counts(">") == two.reading.subject_counts(">")
        assert await held(one) == await held(two)
        for subject in one.reading.subject_counts(">"):
            assert await one.reading.last(subject.decode()) == await two.reading.last(subject.decode())


async def test_a_sourced_file_lies_between_local_messages_before_and_after_folds(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        await publish(stream, 5)
        await stream.replica.adopt("up", b"", [staged(tmp_path, list(range(100)))], b"c1", mirrored=False)
        await publish(stream, 5)
        seqs = list(range(1, 111))
        assert [m.seq for m in await held(stream)] == seqs
        texts = [m.data for m in await held(stream)]
        assert texts[4:7] == [b"local 4", b"payload 0", b"payload 1"]
        assert texts[105] == b"local 0"
        await stream.folder.fold()
        assert [m.data for m in await held(stream)] == texts
        await stream.folder.compact()
        assert [m.data for m in await held(stream)] == texts
    async with opened(tmp_path) as stream:
        assert [m.data for m in await held(stream)] == texts


async def test_compaction_leaves_room_for_what_the_head_still_holds(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        await publish(stream, 3)
        await stream.folder.fold()
        await publish(stream, 3)
        for number in range(6):
            adopted = staged(tmp_path, list(range(50)), f"file{number}")
            cursor, before = b"c%d" % number, b"c%d" % (number - 1) if number else b""
            await stream.replica.adopt("up", before, [adopted], cursor, mirrored=False)
            await stream.folder.compact()
        await stream.folder.fold()
        for _ in range(5):
            await stream.folder.compact()
        assert [m.seq for m in await held(stream)] == list(range(1, 307))


async def test_a_second_adoption_from_the_same_cursor_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        await stream.replica.adopt("up", b"", [staged(tmp_path, [1, 2])], b"c1", mirrored=False)
        with pytest.raises(CursorMovedError):
            await stream.replica.adopt("up", b"", [staged(tmp_path, [1, 2], "two")], b"c1", mirrored=False)
        assert (await stream.reading.state()).messages == 2


async def test_a_crash_between_log_and_table_is_repaired_at_the_next_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: Any) -> None:
        raise Crash

    async with opened(tmp_path) as stream:
        await publish(stream, 2)
        adopted = staged(tmp_path, list(range(50)))
        with monkeypatch.context() as patch:
            patch.setattr(stream._store.table, "adopt", crash)
            with pytest.raises(Crash):
                await stream.replica.adopt("up", b"", [adopted], b"c1", mirrored=False)
    async with opened(tmp_path) as stream:
        assert [m.seq for m in await held(stream)] == list(range(1, 53))
        assert stream.replica.cursor("up") == b"c1"
    async with opened(tmp_path) as stream:
        assert (await stream.reading.state()).messages == 52


async def test_a_file_already_moved_is_adopted_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    def crash(*_: Any, **__: Any) -> None:
        raise Crash

    async with opened(tmp_path) as stream:
        adopted = staged(tmp_path, list(range(50)))
        with monkeypatch.context() as patch:
            patch.setattr(stream._store.table, "commit", crash)
            with pytest.raises(Crash):
                await stream.replica.adopt("up", b"", [adopted], b"c1", mirrored=False)
    async with opened(tmp_path) as stream:
        assert (await stream.reading.state()).messages == 50
        assert len(await held(stream)) == 50


async def test_a_disk_that_refuses_for_a_while_only_delays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as stream:
        adopt, refusals = stream._store.table.adopt, iter([5, 5])

        def refuse(*arguments: Any) -> None:
            if next(refusals, None) is not None:
                raise DiskError(tmp_path, "write", 28)
            adopt(*arguments)

        monkeypatch.setattr(stream._store.table, "adopt", refuse)
        await stream.replica.adopt("up", b"", [staged(tmp_path, [0, 1])], b"c1", mirrored=False)
        assert len(await held(stream)) == 2


async def test_limits_apply_to_an_adopted_file(tmp_path: Path) -> None:
    config = StreamConfig(name="T", max_msgs=10)
    async with opened(tmp_path, config) as stream:
        await stream.replica.adopt("up", b"", [staged(tmp_path, list(range(100)))], b"c1", mirrored=False)
        assert [m.seq for m in await held(stream)] == list(range(91, 101))


async def test_a_checkpoint_waits_for_files_on_their_way(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        await stream.replica.adopt("up", b"", [staged(tmp_path, list(range(20)))], b"c1", mirrored=False)
        await publish(stream, 1)
        await stream.checkpoint()
    async with opened(tmp_path) as stream:
        assert (await stream.reading.state()).messages == 21
        assert stream.replica.cursor("up") == b"c1"


async def test_files_behind_the_head_wait_until_the_head_was_copied(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        await publish(stream, 3)
        await stream.folder.fold()
        await publish(stream, 5)
        await stream.replica.adopt("up", b"", [staged(tmp_path, list(range(100)))], b"c1", mirrored=False)
        ranges = {
            seq: [(f.first_seq, f.last_seq) for f in stream.replica.files_from(seq, 1 << 30)]
            for seq in range(1, 12)
        }
        assert ranges[1] == ranges[3] == [(1, 3)]
        assert ranges[4] == ranges[6] == ranges[8] == []
        assert ranges[9] == ranges[11] == [(9, 108)]


async def test_a_copy_of_a_stream_with_adopted_files_between_its_messages_misses_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        for number in range(4):
            await publish(stream, 7)
            if number == 1:
                await stream.folder.fold()
            adopted = staged(tmp_path, list(range(50)), f"file{number}")
            before = stream.replica.cursor("up")
            await stream.replica.adopt("up", before, [adopted], b"c%d" % number, mirrored=False)
        seq = 1
        covered: list[int] = []
        while seq <= stream.reading.durable_seq:
            files = stream.replica.files_from(seq, 1)
            if files:
                last = files[-1].last_seq
            else:
                _, last = await stream.replica.tail_from(seq, 100)
            covered += range(seq, last + 1)
            seq = last + 1
        assert covered == list(range(1, 4 * 57 + 1))


@pytest.mark.parametrize("mirrored", [True, False])
async def test_several_files_enter_in_one_change(tmp_path: Path, mirrored: bool) -> None:
    async with opened(tmp_path) as stream:
        files = [staged(tmp_path, list(range(at, at + 20)), f"file{at}") for at in (1, 21, 50)]
        version = stream._store.table.version
        assert await stream.replica.adopt("up", b"", files, b"c", mirrored=mirrored) == 60
        assert stream._store.table.version == version + 1
        # A source's messages follow on each other, whatever they are numbered in their files.
        expected = [*range(1, 41), *range(50, 70)] if mirrored else list(range(1, 61))
        assert [m.seq for m in await held(stream)] == expected
    async with opened(tmp_path) as stream:
        assert [m.seq for m in await held(stream)] == expected
        assert stream.replica.cursor("up") == b"c"


async def test_a_crash_between_several_files_leaves_all_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Crash(BaseException):
        pass

    async with opened(tmp_path) as stream:
        files = [staged(tmp_path, list(range(50)), f"file{number}") for number in range(3)]
        rename, renamed = RealDisk.rename, iter(range(100))

        def crash(disk: RealDisk, source: Path, target: Path) -> None:
            if source.parent.name == "staging" and next(renamed) == 1:
                raise Crash
            rename(disk, source, target)

        with monkeypatch.context() as patch:
            patch.setattr(RealDisk, "rename", crash)
            with pytest.raises(Crash):
                await stream.replica.adopt("up", b"", files, b"c1", mirrored=False)
    async with opened(tmp_path) as stream:
        assert (await stream.reading.state()).messages == 150
        assert len(await held(stream)) == 150
        assert stream.replica.cursor("up") == b"c1"
