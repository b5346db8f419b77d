"""What happens to a stream while something else is under way on it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from headwater.errors import ApiError
from headwater.stream import committer
from headwater.stream.head import RESIDENT_BYTES
from simulation.disks import BreakableDisk, Fault
from stream.streams import Workshop, everything, publish


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


async def test_messages_that_come_during_a_purge_stay(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"old")] * 100)
        await stream.folder.fold()
        purge = asyncio.create_task(stream.retention.purge(filter="a"))
        for _ in range(20):
            await publish(stream, (b"a", b"new"))
        assert await purge >= 100
        left = await everything(stream)
        assert {message.data for message in left} <= {b"new"}
        assert (await stream.reading.state()).messages == len(left)


async def test_a_new_limit_holds_for_what_comes_and_goes_while_it_is_taken_up(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"s.%d" % (n % 5), b"") for n in range(200)])
        await stream.folder.fold()
        limited = msgspec.structs.replace(stream.config, max_msgs_per_subject=2)
        change = asyncio.create_task(stream.reconfigure(limited))
        for number in range(20):
            await publish(stream, *[(b"s.%d" % (n % 5), b"") for n in range(number + 1)])
            await stream.retention.remove(number + 1)
        await change
        assert set(stream.reading.subject_counts(">").values()) == {2}
        messages = await everything(stream)
        assert len(messages) == 10
        state = await stream.reading.state()
        assert (state.messages, state.bytes) == (10, sum(30 + len(m.subject) for m in messages))
        await publish(stream, *[(b"s.%d" % n, b"") for n in range(5)])
        assert set(stream.reading.subject_counts(">").values()) == {2}


async def test_a_scan_continues_where_it_was_when_the_stream_goes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    disk = BreakableDisk(tmp_path)
    async with Workshop(tmp_path, disk=disk).stream() as stream:
        for number in range(5):
            await publish(stream, (b"a", b"%d" % number))
        seen: list[bytes] = []
        async for messages in stream.reading.scan(0):
            seen += [message.data for message in messages]
            if len(seen) == 2:
                disk.break_at(disk.operations + 1, Fault.REFUSED)
                with pytest.raises(ApiError):
                    await publish(stream, (b"a", b"refused"))
        assert seen == [b"%d" % number for number in range(5)]


async def test_many_small_batches_offered_at_once_do_not_stay_in_memory(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        for number in range(10_000):
            stream.publishing.offer([(b"a", b"", b"", b"%d" % number)])
        await stream.publishing.settled()
        head = stream._store.head
        assert len(head) == 10_000
        resident = [entry for entry in head.below(1 << 60) if entry.run is not None]
        assert 0 < sum(entry.nbytes for entry in resident) <= RESIDENT_BYTES
        # A run of one message is counted for what it really takes, lists and arrays and all.
        assert resident[0].nbytes >= 1000
        assert [message.data for message in await everything(stream)] == [b"%d" % n for n in range(10_000)]


async def test_all_readers_of_a_stream_that_folds_and_trims_find_every_message(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        written = 0

        async def write() -> None:
            nonlocal written
            for _ in range(60):
                await publish(stream, *[(b"a", b"%d" % (written + n)) for n in range(20)])
                written += 20
                if written % 100 == 0:
                    await stream.folder.fold(force_checkpoint=True)
                if written % 300 == 0:
                    await stream.folder.tidy()

        async def read(step: int) -> int:
            reads = 0
            while not writing.done():
                for seq in range(1, written + 1, step):
                    message = await stream.reading.message(seq)
                    assert message is not None
                    assert message.data == b"%d" % (seq - 1)
                    assert await stream.reading.seq_at(message.ts) == seq
                    reads += 1
                await asyncio.sleep(0)
            return reads

        writing = asyncio.create_task(write())
        reads = await asyncio.gather(read(7), read(31), read(101))
        await writing
        assert all(reads)


async def test_a_message_that_comes_while_an_empty_stream_takes_up_a_limit_is_counted(
    workshop: Workshop,
) -> None:
    async with workshop.stream() as stream:
        limited = msgspec.structs.replace(stream.config, max_msgs_per_subject=1)
        change = asyncio.create_task(stream.reconfigure(limited))
        for number in range(50):
            stream.publishing.offer([(b"a", b"", b"", b"%d" % number)])
            await asyncio.sleep(0)
        await change
        await publish(stream, (b"a", b"last"))
        assert [message.data for message in await everything(stream)] == [b"last"]
