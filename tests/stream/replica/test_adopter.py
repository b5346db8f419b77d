"""Files that the log names enter the table in order, once, however often the table refuses."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from errno import EIO, ENOSPC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.delivery.feed import Feed
from headwater.delivery.tallies import SubjectTally
from headwater.errors import ApiError, DiskError, Error
from headwater.model.adopted import Adopted
from headwater.model.run import Run
from headwater.stream import committer
from headwater.stream.replica import adopter
from headwater.stream.stream import Stream
from headwater.table.staging import LocalStaging
from headwater.table.table import ConflictError, Table
from headwater.table.table_storage import LocalTableStorage
from stream.replica.test_replica import CONFIG, held, opened, publish, staged
from waits import until

MANY_SUBJECTS = msgspec.structs.replace(CONFIG, subjects=("t", "u.>"))


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, first, most in (
        (committer, "RETRY_FIRST_S", "RETRY_MOST_S"),
        (adopter, "FIRST_PAUSE_S", "LONGEST_PAUSE_S"),
    ):
        monkeypatch.setattr(module, first, 0.001)
        monkeypatch.setattr(module, most, 0.01)


class Held:
    """A table whose adoptions are refused until a test allows them."""

    def __init__(self, stream: Stream) -> None:
        store: Any = stream._store
        self.is_refusing = True
        self.tried = threading.Event()
        adopt = store.table.adopt

        def held(*arguments: Any) -> None:
            self.tried.set()
            if self.is_refusing:
                raise DiskError(store.directory, "write", ENOSPC)
            adopt(*arguments)

        store.table.adopt = held


async def refuse_a_write(stream: Stream) -> None:
    """Have one write refused and the ledger rebuilt."""
    store: Any = stream._store
    sync, generation = store.log.sync, store.generation

    def refused() -> None:
        store.log.sync = sync
        raise DiskError(store.directory, "sync", ENOSPC)

    store.log.sync = refused
    stream.publishing.offer([(b"t", b"", b"", b"refused")])
    with pytest.raises(ApiError):
        await stream.publishing.settled()
    await until(lambda: store.generation > generation and stream._committer.failure is None, "it stores")


async def test_an_adoption_ends_though_the_ledger_is_rebuilt_meanwhile(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        table = Held(stream)
        await publish(stream, 2)
        one, two = staged(tmp_path, list(range(50))), staged(tmp_path, list(range(60)), "two")
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [one], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        also = asyncio.ensure_future(stream.replica.adopt("other", b"", [two], b"d1", mirrored=False))
        await until(lambda: stream.replica.durable_cursor("other") == b"d1", "the log names both")
        await refuse_a_write(stream)
        # It answers, although the table refuses and readers must wait.
        state = await asyncio.wait_for(stream.reading.state(), 60)
        assert (state.messages, state.last_seq) == (112, 112)
        assert not adopting.done()
        table.is_refusing = False
        assert [await asyncio.wait_for(each, 60) for each in (adopting, also)] == [50, 60]
        assert [m.seq for m in await held(stream)] == list(range(1, 113))
        await publish(stream, 1)
    async with opened(tmp_path) as stream:
        assert len(await held(stream)) == 113


async def test_in_a_bucket_each_second_adoption_waits_for_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next range is copied while files enter the table; reads wait, and are not kept waiting forever."""
    monkeypatch.setattr(LocalStaging, "is_remote", True)
    async with opened(tmp_path, CONFIG) as stream:
        held_up = Held(stream)
        files = [staged(tmp_path, list(range(50)), f"file{n}") for n in range(3)]
        cursors = [b"", b"c0", b"c1", b"c2"]

        def adopting(n: int) -> asyncio.Future[int]:
            return asyncio.ensure_future(
                stream.replica.adopt("up", cursors[n], [files[n]], cursors[n + 1], mirrored=False)
            )

        assert await asyncio.wait_for(adopting(0), 60) == 50
        assert (await stream.reading.state()).messages == 50
        reading = asyncio.ensure_future(held(stream))
        second = adopting(1)
        await until(lambda: stream._store.ledger.last_seq == 100, "the log names the second file")
        assert await asyncio.to_thread(held_up.tried.wait, 60)
        assert not second.done()
        assert not reading.done()
        held_up.is_refusing = False
        assert await asyncio.wait_for(second, 60) == 50
        assert len(await asyncio.wait_for(reading, 60)) == 100
        assert not stream._store.adoptions
        assert await asyncio.wait_for(adopting(2), 60) == 50
        assert len(await asyncio.wait_for(held(stream), 60)) == 150


async def test_with_limits_an_adoption_always_waits_for_the_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LocalStaging, "is_remote", True)
    async with opened(tmp_path, msgspec.structs.replace(CONFIG, max_msgs=30)) as stream:
        held_up = Held(stream)
        adopting = asyncio.ensure_future(
            stream.replica.adopt("up", b"", [staged(tmp_path, list(range(50)))], b"c1", mirrored=False)
        )
        assert await asyncio.to_thread(held_up.tried.wait, 60)
        assert not adopting.done()
        held_up.is_refusing = False
        assert await asyncio.wait_for(adopting, 60) == 50
        assert (await stream.reading.state()).messages == 30


async def test_an_adoption_is_done_once_also_if_its_files_were_compacted_since(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        files = [staged(tmp_path, list(range(50)), name) for name in ("one", "two")]
        assert await stream.replica.adopt("up", b"", files, b"c1", mirrored=False) == 100
        await stream.folder.compact()
        placed = [file.behind(at, 0, 0) for file, at in zip(files, (0, 50), strict=True)]
        stream._store.adoptions.announce(placed)
        stream.replica._adopter.start()
        await asyncio.wait_for(stream.publishing.settled(), 60)
        assert len(await held(stream)) == 100


async def test_a_later_file_does_not_enter_before_an_earlier_one_that_was_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        store: Any = stream._store
        adopt, calls = store.table.adopt, []

        def refuse_the_first(staging: Path, files: list[Adopted], transactions: dict[str, int]) -> None:
            calls.append([file.name for file in files])
            if len(calls) == 1:
                raise DiskError(tmp_path, "write", ENOSPC)
            adopt(staging, files, transactions)

        store.table.adopt = refuse_the_first
        one, two = staged(tmp_path, list(range(50))), staged(tmp_path, list(range(60)), "two")
        taken = await asyncio.gather(
            stream.replica.adopt("up", b"", [one], b"c1", mirrored=False),
            stream.replica.adopt("other", b"", [two], b"d1", mirrored=False),
        )
        assert list(taken) == [50, 60]
        assert [name for names in calls[1:] for name in names] == [one.name, two.name]
    async with opened(tmp_path) as stream:
        assert len(await held(stream)) == 110


async def test_a_stream_whose_table_refuses_can_be_closed(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
    with pytest.raises(Error, match="closed"):
        await asyncio.wait_for(adopting, 60)
    async with opened(tmp_path) as stream:
        assert len(await held(stream)) == 50
        assert stream.replica.durable_cursor("up") == b"c1"


async def test_a_message_that_is_asked_for_while_its_file_enters_the_table_is_waited_for(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as stream:
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        assert (await asyncio.wait_for(stream.reading.state(), 60)).messages == 50
        asked = [
            asyncio.ensure_future(stream.reading.message(1)),
            asyncio.ensure_future(stream.reading.next(">", 1)),
        ]
        done, _ = await asyncio.wait(asked, timeout=0.05)
        assert not done
        table.is_refusing = False
        assert await asyncio.wait_for(adopting, 60) == 50
        for each in asked:
            message = await asyncio.wait_for(each, 60)
            assert message is not None
            assert message.seq == 1


@pytest.mark.parametrize("refused", ["after a conflict", "when it was moved"])
async def test_no_sweep_removes_a_file_that_the_table_refuses_to_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: str
) -> None:
    refusals, is_refusing = threading.Event(), True
    commit, adopt, sweep = Table.commit, LocalTableStorage.adopt, Table.sweep

    def sweep_at_once(self: Table, _: float, now_s: float, *pinned: Any) -> int:
        return sweep(self, 0, now_s, *pinned)

    def refuse_commit(self: Table, **change: Any) -> None:
        if refused == "after a conflict" and is_refusing and change.get("transactions"):
            refusals.set()
            raise ConflictError("another commit is in its place")
        commit(self, **change)

    def refuse_move(self: LocalTableStorage, staging: Path, paths: Sequence[str]) -> None:
        adopt(self, staging, paths)
        if refused == "when it was moved" and is_refusing:
            refusals.set()
            raise DiskError(tmp_path, "sync", EIO)

    monkeypatch.setattr(Table, "sweep", sweep_at_once)
    monkeypatch.setattr(Table, "commit", refuse_commit)
    monkeypatch.setattr(LocalTableStorage, "adopt", refuse_move)
    async with opened(tmp_path) as stream:
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(refusals.wait, 60)
        for _ in range(20):
            stream._store.table.has_unreferenced = True
            await stream.folder.tidy()
            await asyncio.sleep(0.005)
        assert not adopting.done()
        is_refusing = False
        assert await asyncio.wait_for(adopting, 60) == 50
        assert len(await held(stream)) == 50


async def test_compaction_leaves_room_for_a_file_that_waits_to_enter_the_table(tmp_path: Path) -> None:
    """If the files around it were merged, it could never enter, and the stream could not be opened."""
    async with opened(tmp_path, MANY_SUBJECTS) as stream:
        # With a large checkpoint the folds below write none, for which they would wait for the file.
        stream.publishing.offer([(b"u.%d" % number, b"", b"", b"") for number in range(300)])
        await stream.folder.fold(force_checkpoint=True)
        for _ in range(3):
            await publish(stream, 3)
            await stream.folder.fold()
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        for _ in range(4):
            stream.publishing.offer([(b"t", b"", b"", b"behind it")])
            await stream.publishing.promise()
            await stream.folder.fold()
            await stream.folder.compact()
        table.is_refusing = False
        await asyncio.wait_for(adopting, 60)
        assert [m.seq for m in await held(stream)] == list(range(1, 364))
    async with opened(tmp_path, MANY_SUBJECTS) as stream:
        assert [m.seq for m in await held(stream)] == list(range(1, 364))


async def test_a_full_stream_loses_its_oldest_messages_also_while_they_wait_to_enter_the_table(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, msgspec.structs.replace(CONFIG, max_msgs=50)) as stream:
        await publish(stream, 10)
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        stream.publishing.offer([(b"t", b"", b"", b"newest")])
        await stream.publishing.promise()
        table.is_refusing = False
        await asyncio.wait_for(adopting, 60)
        found = await held(stream)
        assert [m.seq for m in found] == list(range(12, 62))
        assert found[-1].data == b"newest"


async def test_a_scan_waits_for_a_file_that_waits_to_enter_the_table(tmp_path: Path) -> None:
    """Otherwise a backup at this time would not contain its messages."""
    async with opened(tmp_path) as stream:
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        stream.publishing.offer([(b"t", b"", b"", b"behind it")])
        await stream.publishing.promise()
        scanning = asyncio.ensure_future(held(stream))
        await asyncio.sleep(0.01)
        table.is_refusing = False
        await asyncio.wait_for(adopting, 60)
        assert [m.seq for m in await scanning] == list(range(1, 52))


async def test_a_consumer_skips_no_file_that_enters_the_table_while_it_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as stream:
        await publish(stream, 2)
        await stream.retention.purge()
        await stream.folder.fold()
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.replica.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        stream.publishing.offer([(b"t", b"", b"", b"behind it")])
        await stream.publishing.promise()
        run_at = stream.reading.run_at

        async def adopted_meanwhile(seq: int) -> Run | None:
            run = await run_at(seq)
            table.is_refusing = False
            await asyncio.wait_for(adopting, 60)
            return run

        monkeypatch.setattr(stream.reading, "run_at", adopted_meanwhile)
        found = await Feed(stream, SubjectTally(())).read(1)
        assert found is not None
        assert (list(found.rows), found.next_seq) == ([], 3)
