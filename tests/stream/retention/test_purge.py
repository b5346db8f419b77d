"""A purge removes what matches, oldest first, run by run, and keeps as many of the newest as requested."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from headwater.model.run import Run
from headwater.stream.retention.purge import removals
from headwater.stream.stream import Stream
from stream.model import matches
from stream.streams import Workshop, config_of, everything, publish

SUBJECTS = [b"a.1", b"b.1", b"a.2"]


async def filled(workshop: Workshop) -> Stream:
    """Return a stream of twelve messages in four runs, two of them folded, two messages removed."""
    stream = await workshop.open(config_of())
    for start in range(0, 12, 3):
        await publish(stream, *[(SUBJECTS[(start + n) % 3], b"%d" % n) for n in range(3)])
        if start == 3:
            await stream.folder.fold()
    await stream.retention.remove(5)
    await stream.retention.remove(9)
    return stream


def counted(total: int) -> Callable[[], Awaitable[int]]:
    """Return a count of the messages that match, taken before."""

    async def count() -> int:
        return total

    return count


async def taken(stream: Stream, pattern: str, below_seq: int, leave: int) -> list[list[int]]:
    """Return the sequences of each removal, each applied before the next is asked for."""
    chosen = [m for m in await everything(stream) if m.seq < below_seq and matches(pattern or ">", m.subject)]
    found = []
    async for removal in removals(stream._store, pattern, below_seq, leave, counted(len(chosen))):
        found.append(list(removal.seqs))
        stream._sequencer.remove(removal)
    await stream.publishing.settled()
    wanted = [m.seq for m in chosen][: max(0, len(chosen) - leave)]
    assert [seq for seqs in found for seq in seqs] == wanted
    return found


@pytest.mark.parametrize("leave", [0, 2, 100])
@pytest.mark.parametrize("below_seq", [1, 6, 99])
@pytest.mark.parametrize("pattern", ["", "a.*", "c"])
async def test_exactly_the_oldest_that_match_below_the_sequence_go(
    workshop: Workshop, pattern: str, below_seq: int, leave: int
) -> None:
    stream = await filled(workshop)
    before = {m.seq for m in await everything(stream)}
    gone = {seq for seqs in await taken(stream, pattern, below_seq, leave) for seq in seqs}
    assert {m.seq for m in await everything(stream)} == before - gone
    await stream.close()


async def test_each_run_is_one_change_and_no_run_is_read_beyond_the_last_that_goes(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await filled(workshop)
    view = stream._store.view
    run_at, asked = view.run_at, []

    async def noting(seq: int) -> Run | None:
        asked.append(seq)
        return await run_at(seq)

    monkeypatch.setattr(view, "run_at", noting)
    found = []
    async for removal in removals(stream._store, "", 99, 5, counted(10)):
        found.append(list(removal.seqs))
        stream._sequencer.remove(removal)
    assert found == [[1, 2, 3, 4, 6]]
    assert asked == [1], "the folded messages are one run now, and enough"
    await stream.close()


async def test_what_was_counted_and_is_gone_is_not_made_up_for_by_newer_messages(workshop: Workshop) -> None:
    stream = await filled(workshop)
    await stream.retention.remove(1)
    async for removal in removals(stream._store, "", 4, 0, counted(3)):
        stream._sequencer.remove(removal)
    assert [m.seq for m in await everything(stream)] == [4, 6, 7, 8, 10, 11, 12]
    await stream.close()


@pytest.mark.parametrize("pattern", ["", "a.*"])
async def test_two_purges_at_once_keep_what_each_was_to_keep(workshop: Workshop, pattern: str) -> None:
    """A client repeats a request that timed out, and both requests run at the same time."""
    stream = await workshop.open(config_of())
    await publish(stream, *[(b"a.%d" % (number % 2), b"") for number in range(10)])
    await stream.folder.fold()
    purges = [stream.retention.purge(filter=pattern, keep=4) for _ in range(2)]
    assert sorted(await asyncio.gather(*purges)) == [0, 6]
    assert [m.seq for m in await everything(stream)] == [7, 8, 9, 10]
    await stream.close()


async def test_what_another_removed_meanwhile_is_not_counted_among_the_newest(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await workshop.open(config_of())
    await publish(stream, *[(b"a", b"") for _ in range(10)])
    await stream.folder.fold()
    view = stream._store.view
    run_at = view.run_at

    async def after_another(seq: int) -> Run | None:
        monkeypatch.setattr(view, "run_at", run_at)
        for other in (8, 9, 10):
            await stream.retention.remove(other)
        return await run_at(seq)

    monkeypatch.setattr(view, "run_at", after_another)
    assert await stream.retention.purge(keep=4) == 3
    assert [m.seq for m in await everything(stream)] == [4, 5, 6, 7]
    await stream.close()


async def test_messages_that_come_during_a_purge_save_none_below_its_sequence(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = await workshop.open(config_of())
    await publish(stream, *[(b"a", b"") for _ in range(10)])
    reader = stream.retention._reader
    pending = reader.pending

    async def and_another(*arguments: Any) -> int:
        counted = await pending(*arguments)
        await publish(stream, (b"a", b""))
        return counted

    monkeypatch.setattr(reader, "pending", and_another)
    assert await stream.retention.purge(filter="a", seq=9) == 8
    assert [m.seq for m in await everything(stream)][:2] == [9, 10]
    await stream.close()
