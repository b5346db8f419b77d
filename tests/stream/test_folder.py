"""Folding moves messages into the table, compaction erases what was removed, and readers notice neither."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from headwater.errors import Error
from headwater.stream import committer, folder
from headwater.stream.stream import Stream
from headwater.table.table import ConflictError, Table
from simulation.disks import BreakableDisk, Fault
from stream.streams import SECOND, Workshop, config_of, everything, publish


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)


def numbered(count: int, start: int = 1) -> list[tuple[bytes, bytes]]:
    return [(b"s.%d" % (n % 3), b"data %d" % n) for n in range(start, start + count)]


def rows(stream: Stream) -> int:
    """Return how many rows the table holds, dead ones included."""
    return sum(file.rows for file in stream._store.table.files)


async def test_a_fold_leaves_an_empty_head_and_the_same_messages(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream() as stream:
        await publish(stream, *numbered(10))
        before = await everything(stream)
        await stream.folder.fold()
        assert len(stream._store.head) == 0
        assert rows(stream) == 10
        assert await everything(stream) == before


async def test_a_fold_is_due_by_messages_bytes_or_age(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path, fold_messages=5, fold_bytes=4096, fold_interval_s=1.0)
    async with workshop.stream() as stream:
        now_ns = workshop.clock.now_ns()
        assert not stream.folder.due(now_ns + 10 * SECOND)
        await publish(stream, *numbered(4))
        assert not stream.folder.due(now_ns)
        assert stream.folder.due(now_ns + SECOND)
        await publish(stream, *numbered(1))
        assert stream.folder.due(now_ns)
        await stream.folder.fold()
        assert not stream.folder.due(now_ns + 10 * SECOND)
        await publish(stream, (b"a", bytes(5000)))
        assert stream.folder.due(now_ns)


async def test_a_log_of_removals_alone_is_trimmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "LARGE_LOG", 2000)
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, *numbered(50))
        await stream.checkpoint()
        assert not stream.folder.due(workshop.clock.now_ns())
        for seq in range(1, 40):
            await stream.retention.remove(seq)
        assert len(stream._store.head) == 0
        assert stream.folder.due(workshop.clock.now_ns())
        await stream.checkpoint()
        assert not stream.folder.due(workshop.clock.now_ns())
        assert stream._store.log.size_bytes < 100


async def test_removed_messages_are_erased_from_the_table(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream() as stream:
        await publish(stream, (b"a", b"secret one"), (b"a", b"kept"), (b"a", b"secret two"))
        await stream.folder.fold()
        await stream.retention.remove(1)
        await stream.retention.remove(3)
        await stream.folder.tidy()
        await stream.folder.tidy()
        await stream.checkpoint()
        assert rows(stream) == 1
        files = [path for path in (tmp_path / "S").rglob("*") if path.is_file()]
        assert not [path for path in files if b"secret" in path.read_bytes()]
        assert [message.data for message in await everything(stream)] == [b"kept"]


async def test_a_removal_that_is_not_durable_keeps_no_message_out_of_the_table(tmp_path: Path) -> None:
    """The message is removed during the fold, and the power fails before the removal is durable."""
    disk = BreakableDisk(tmp_path)
    workshop = Workshop(tmp_path, disk=disk)
    stream = await workshop.open(config_of())
    await publish(stream, *numbered(5))
    rotate = stream._committer.rotate

    async def rotate_then_remove(*, dump: bool) -> committer.Rotated:
        rotated = await rotate(dump=dump)
        disk.break_at(1 + [line.split()[0] for line in disk.history].count("write"), Fault.REFUSED, "write")
        removing.append(asyncio.create_task(stream.retention.remove(3)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return rotated

    removing: list[asyncio.Task[bool]] = []
    stream._committer.rotate = rotate_then_remove  # type: ignore[method-assign]
    await stream.folder.fold()
    with pytest.raises(Error):
        await removing[0]
    assert [message.seq for message in await everything(stream)] == [1, 2, 3, 4, 5]
    await stream.close()
    disk.power_cut(random.Random(1))
    async with workshop.stream() as stream:
        assert [message.seq for message in await everything(stream)] == [1, 2, 3, 4, 5]


async def test_a_commit_that_cannot_be_taken_back_does_not_end_folding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Workshop(tmp_path).stream() as stream:
        await publish(stream, *numbered(5))
        commit = Table.commit

        def commit_and_complain(self: Table, *args: object, **kwargs: object) -> None:
            commit(self, *args, **kwargs)  # type: ignore[arg-type]
            raise ConflictError("nobody knows whether it holds")

        monkeypatch.setattr(Table, "commit", commit_and_complain)
        with pytest.raises(ConflictError):
            await stream.folder.fold()
        monkeypatch.undo()
        assert [message.seq for message in await everything(stream)] == [1, 2, 3, 4, 5]
        await publish(stream, *numbered(2))
        await stream.folder.fold()
        assert len(stream._store.head) == 0
        assert [message.seq for message in await everything(stream)] == list(range(1, 8))


async def test_trouble_with_the_delta_log_after_the_commit_does_not_end_folding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Workshop(tmp_path).stream() as stream:
        await publish(stream, *numbered(5))

        def refuse(self: Table) -> None:
            raise ConflictError("no checkpoint today")

        monkeypatch.setattr(Table, "maintain", refuse)
        with pytest.raises(ConflictError):
            await stream.folder.fold()
        monkeypatch.undo()
        await publish(stream, *numbered(2))
        await stream.folder.fold()
        assert rows(stream) == 7


async def test_readers_and_publishers_continue_while_everything_is_folded_and_compacted(
    tmp_path: Path,
) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream(max_msgs_per_subject=50) as stream:
        stopped = asyncio.Event()

        async def read() -> int:
            rounds = 0
            while not stopped.is_set():
                state = await stream.reading.state()
                seqs = [message.seq for message in await everything(stream)]
                assert seqs == sorted(set(seqs))
                # What was there and was not read must have been removed while this read the rest.
                unread = set(range(state.first_seq, state.last_seq + 1)) - set(seqs)
                assert not [seq for seq in sorted(unread) if stream.reading.is_live(seq)]
                rounds += 1
                await asyncio.sleep(0)
            return rounds

        async def keep_tidy() -> None:
            while not stopped.is_set():
                await stream.folder.fold(force_checkpoint=True)
                await stream.folder.tidy()

        tasks = [asyncio.create_task(work) for work in (read(), read(), keep_tidy())]
        for number in range(100):
            await publish(stream, *numbered(10, 1 + 10 * number))
            if number % 10 == 0:
                await stream.retention.remove(10 * number - 3)
        stopped.set()
        rounds = await asyncio.gather(*tasks)
        assert rounds[0]
        assert (await stream.reading.state()).messages == 150


async def test_closing_waits_for_a_fold_under_way(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    stream = await workshop.open(config_of())
    await publish(stream, *numbered(5))
    fold = asyncio.create_task(stream.folder.fold())
    await asyncio.sleep(0)
    await stream.close()
    assert fold.done()
    async with workshop.stream() as stream:
        assert len(stream._store.head) == 0
        assert len(await everything(stream)) == 5
