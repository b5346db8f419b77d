"""Files that the log names enter the table in their order, once, and are waited for only by who must."""

from __future__ import annotations

import asyncio
import threading
from errno import ENOSPC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headwater.errors import ApiError, DiskError, Error
from headwater.model.adopted import Adopted
from headwater.model.copied import Copied
from headwater.model.cursor import Cursor
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource
from headwater.stream import committer
from headwater.stream.replica import copying
from headwater.stream.replica.adoptions import Adoptions
from headwater.stream.stream import Stream
from stream.replica.test_copying import held, opened, publish, staged
from waits import until


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, first, most in (
        (committer, "RETRY_FIRST_S", "RETRY_MOST_S"),
        (copying, "FIRST_PAUSE_S", "LONGEST_PAUSE_S"),
    ):
        monkeypatch.setattr(module, first, 0.001)
        monkeypatch.setattr(module, most, 0.01)


def a_file(first: int, last: int) -> Adopted:
    return Adopted("f", last - first + 1, first, last, 1, 1, 1, 0, 1, "s", "s", {})


async def test_files_are_told_in_their_order_up_to_a_sequence() -> None:
    adoptions = Adoptions()
    adoptions.announce([a_file(11, 20), a_file(1, 10), a_file(21, 30)])
    assert [file.first_seq for file in adoptions.through(20)] == [1, 11]
    assert adoptions.first_seq == 1
    assert adoptions.holding(25) is not None
    assert adoptions.holding(31) is None


async def test_who_waits_for_some_files_does_not_wait_for_later_ones() -> None:
    adoptions = Adoptions()
    adoptions.announce([a_file(1, 10), a_file(11, 20)])
    first, all_of_them = (asyncio.ensure_future(adoptions.ended(seq)) for seq in (10, None))
    await asyncio.sleep(0)
    adoptions.done(10)
    await first
    assert not all_of_them.done()
    adoptions.done(20)
    await all_of_them
    assert not adoptions


async def test_a_file_that_was_refused_is_withdrawn_but_not_the_next_one_in_its_place() -> None:
    adoptions, refused, next_one = Adoptions(), a_file(1, 10), a_file(1, 5)
    adoptions.announce([refused])
    adoptions.replace([])
    adoptions.announce([next_one])
    adoptions.withdraw([refused])
    assert adoptions.through(10) == [next_one]
    adoptions.withdraw([next_one])
    assert not adoptions


async def test_nobody_waits_for_a_stream_that_is_closed() -> None:
    adoptions = Adoptions()
    adoptions.announce([a_file(1, 10)])
    waiting = asyncio.ensure_future(adoptions.ended())
    await asyncio.sleep(0)
    adoptions.close()
    with pytest.raises(Error, match="closed"):
        await waiting


class Held:
    """A table whose adoptions are refused until it is let go."""

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
    stream.offer([(b"t", b"", b"", b"refused")])
    with pytest.raises(ApiError):
        await stream.settled()
    await until(lambda: store.generation > generation and stream._committer.failure is None, "it stores")


async def test_an_adoption_ends_though_the_ledger_is_rebuilt_meanwhile(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        table = Held(stream)
        await publish(stream, 2)
        one, two = staged(tmp_path, list(range(50))), staged(tmp_path, list(range(60)), "two")
        adopting = asyncio.ensure_future(stream.copying.adopt("up", b"", [one], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        also = asyncio.ensure_future(stream.copying.adopt("other", b"", [two], b"d1", mirrored=False))
        await until(lambda: stream.copying.durable_cursor("other") == b"d1", "the log names both")
        await refuse_a_write(stream)
        # It answers, although the table refuses and readers must wait.
        state = await asyncio.wait_for(stream.state(), 60)
        assert (state.messages, state.last_seq) == (112, 112)
        assert not adopting.done()
        table.is_refusing = False
        assert [await asyncio.wait_for(each, 60) for each in (adopting, also)] == [50, 60]
        assert [m.seq for m in await held(stream)] == list(range(1, 113))
        await publish(stream, 1)
    async with opened(tmp_path) as stream:
        assert len(await held(stream)) == 113


async def test_an_adoption_is_done_once_also_if_its_files_were_compacted_since(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        files = [staged(tmp_path, list(range(50)), name) for name in ("one", "two")]
        assert await stream.copying.adopt("up", b"", files, b"c1", mirrored=False) == 100
        await stream.folder.compact()
        placed = [file.behind(at, 0, 0) for file, at in zip(files, (0, 50), strict=True)]
        stream._store.adoptions.announce(placed)
        stream.copying.see_to_adoptions()
        await asyncio.wait_for(stream.settled(), 60)
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
            stream.copying.adopt("up", b"", [one], b"c1", mirrored=False),
            stream.copying.adopt("other", b"", [two], b"d1", mirrored=False),
        )
        assert list(taken) == [50, 60]
        assert [name for names in calls[1:] for name in names] == [one.name, two.name]
    async with opened(tmp_path) as stream:
        assert len(await held(stream)) == 110


async def test_a_stream_whose_table_refuses_can_be_closed(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.copying.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
    with pytest.raises(Error, match="closed"):
        await asyncio.wait_for(adopting, 60)
    async with opened(tmp_path) as stream:
        assert len(await held(stream)) == 50
        assert stream.copying.durable_cursor("up") == b"c1"


async def test_a_message_that_is_asked_for_while_its_file_enters_the_table_is_waited_for(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path) as stream:
        table = Held(stream)
        file = staged(tmp_path, list(range(50)))
        adopting = asyncio.ensure_future(stream.copying.adopt("up", b"", [file], b"c1", mirrored=False))
        await asyncio.to_thread(table.tried.wait, 60)
        assert (await asyncio.wait_for(stream.state(), 60)).messages == 50
        asked = [asyncio.ensure_future(stream.message(1)), asyncio.ensure_future(stream.next(">", 1))]
        done, _ = await asyncio.wait(asked, timeout=0.05)
        assert not done
        table.is_refusing = False
        assert await asyncio.wait_for(adopting, 60) == 50
        for each in asked:
            message = await asyncio.wait_for(each, 60)
            assert message is not None
            assert message.seq == 1


SOURCE = StreamSource(name="ORIGIN")
WITH_SOURCE = StreamConfig(name="T", subjects=("t",), sources=(SOURCE,))
ROWS = 50


class _Crash(BaseException):
    pass


def _crash(*_: Any, **__: Any) -> None:
    raise _Crash


def segment(directory: Path) -> Path:
    return sorted((directory / "T" / "log").glob("*.log"))[-1]


async def damaged_log(directory: Path, damage: str, crashes: bool, more: bool) -> None:
    """Leave a stream that adopted a file, with a flipped bit before that or in the batch that names it."""
    async with opened(directory, WITH_SOURCE) as stream:
        await publish(stream, 3)
        sizes = [segment(directory).stat().st_size]
        await publish(stream, 4)
        sizes.append(segment(directory).stat().st_size)
        copied = Copied(SOURCE.name, "id-1", 100, 0, 1, 1, 0)
        file = msgspec.structs.replace(staged(directory, list(range(ROWS))), copied=copied)
        with pytest.MonkeyPatch.context() as patch:
            if crashes:
                patch.setattr(stream._store.table, "adopt", _crash)
            try:
                cursor = Cursor("id-1", 100 + ROWS - 1).encode()
                await stream.copying.adopt(SOURCE.index_name, b"", [file], cursor, mirrored=False)
            except _Crash:
                assert crashes
        sizes.append(segment(directory).stat().st_size)
        if more:
            await publish(stream, 2)
    first, last = sizes[:2] if damage == "before" else sizes[1:]
    content = bytearray(segment(directory).read_bytes())
    content[(first + last) // 2] ^= 4
    segment(directory).write_bytes(content)


@pytest.mark.parametrize(("crashes", "more"), [(False, True), (False, False), (True, False)])
async def test_what_was_adopted_after_the_damage_in_a_log_is_not_lost(
    tmp_path: Path, crashes: bool, more: bool
) -> None:
    await damaged_log(tmp_path, "before", crashes, more)
    kept = [1, 2, 3, *range(8, 8 + ROWS + 2 * more)]
    for _ in range(2):
        async with opened(tmp_path, WITH_SOURCE) as stream:
            state = await stream.state()
            assert state.lost is not None
            assert state.lost.msgs == (4, 5, 6, 7)
            assert [m.seq for m in await held(stream)] == kept
            assert Cursor.decode(stream.copying.cursor(SOURCE.index_name)) == Cursor("id-1", 149)
            await stream.checkpoint()


@pytest.mark.parametrize("more", [True, False])
async def test_an_adoption_whose_batch_is_damaged_is_found_in_the_table_and_not_copied_twice(
    tmp_path: Path, more: bool
) -> None:
    await damaged_log(tmp_path, "adoption", False, more)
    for _ in range(2):
        async with opened(tmp_path, WITH_SOURCE) as stream:
            assert [m.seq for m in await held(stream)] == list(range(1, 8 + ROWS + 2 * more))
            assert (await stream.state()).lost is None
            assert Cursor.decode(stream.copying.cursor(SOURCE.index_name)) == Cursor("id-1", 149)
            await stream.checkpoint()
