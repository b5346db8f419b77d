"""Flipped bytes in a log or a table are reported and never served; the rest is served all the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.errors import CorruptionError
from headwater.model.message import Message
from headwater.stream.stream import Stream
from stream.streams import Workshop, config_of, everything, headers, publish


def message_items(count: int, start: int = 1) -> list[tuple[bytes, bytes, bytes]]:
    return [
        (b"s.%d" % (n % 3), b"data %d" % n * 5, headers(Nats_Msg_Id=str(n)) if n % 2 else b"")
        for n in range(start, start + count)
    ]


async def filled(workshop: Workshop, batches: int) -> list[Message]:
    """Return what a stream of so many batches of two messages holds."""
    async with workshop.stream() as stream:
        for batch in range(batches):
            await publish(stream, *message_items(2, 1 + 2 * batch))
        return await everything(stream)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x40
    path.write_bytes(content)


async def readable(stream: Stream) -> tuple[dict[int, Message], set[int]]:
    """Return the messages that can be read one by one, and the sequences whose readers get an error."""
    found, damaged = {}, set()
    state = await stream.state()
    for seq in range(1, state.last_seq + 1):
        try:
            message = await stream.message(seq)
        except CorruptionError:
            damaged.add(seq)
            continue
        if message is not None:
            found[seq] = message
    return found, damaged


@pytest.mark.parametrize("seed", range(30))
async def test_a_flipped_byte_in_the_log_loses_at_most_one_batch_and_says_so(
    tmp_path: Path, seed: int
) -> None:
    rng = random.Random(seed)
    workshop = Workshop(tmp_path)
    before = {message.seq: message for message in await filled(workshop, 6)}
    (segment,) = (tmp_path / "S" / "log").glob("*.log")
    flip(segment, rng.randrange(48, segment.stat().st_size))
    async with workshop.stream() as stream:
        found, _ = await readable(stream)
        state = await stream.state()
        gone = set(before) - set(found)
        assert {seq: before[seq] for seq in found} == found
        assert len(gone) <= 2
        # A damaged end cannot be told from one that a crash left half written.
        assert set(state.lost.msgs if state.lost else ()) == gone - ({11, 12} if gone == {11, 12} else set())
        assert state.messages == len(found)
        workshop.answers.frames.clear()
        await publish(stream, *message_items(2, 100))
        answers = workshop.answers.take()
        assert all("error" not in answer for answer in answers.values())
    workshop.close()


async def test_a_damaged_batch_with_a_removal_does_not_keep_the_stream_from_opening(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, *message_items(4))
        await stream.folder.fold()
        size = stream._store.log.size_bytes
        await stream.remove(1)
        await publish(stream, *message_items(2, 5))
        await stream.remove(3)
        await publish(stream, *message_items(2, 7))
    newest = max((tmp_path / "S" / "log").glob("*.log"))
    assert newest.stat().st_size > 60
    flip(newest, 60)
    assert size > 0
    async with workshop.stream() as stream:
        messages = await everything(stream)
        # The removal of 1 is in later batches, too, which know the first sequence.
        assert [message.seq for message in messages] == [2, 4, 5, 6, 7, 8]
        state = await stream.state()
        assert state.messages == 6
        assert stream.subject_counts(">") == {b"s.0": 1, b"s.1": 2, b"s.2": 3}
    workshop.close()


@pytest.mark.parametrize("seed", range(20))
async def test_a_flipped_byte_in_the_table_is_never_served_and_the_rest_is(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    workshop = Workshop(tmp_path, read_cache_bytes=0)
    async with workshop.stream() as stream:
        for part in range(3):
            await publish(stream, *message_items(5, 1 + 5 * part))
            await stream.checkpoint()
        await publish(stream, *message_items(5, 16))
        before = {message.seq: message for message in await everything(stream)}
    files = sorted((tmp_path / "S" / "table").glob("base_seq=*/**/*.parquet"))
    damaged_file = rng.choice(files)
    flip(damaged_file, rng.randrange(damaged_file.stat().st_size))
    workshop.close()
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        found, damaged = await readable(stream)
        assert {seq: before[seq] for seq in found} == found
        assert set(found) | damaged == set(before)
        assert len(damaged) in (0, 5)
        await publish(stream, *message_items(2, 21))
        await stream.folder.fold()
        await stream.folder.tidy()
        again, still = await readable(stream)
        assert set(again) == set(found) | {21, 22}
        assert still == damaged
    workshop.close()


async def test_limits_that_would_take_out_unreadable_messages_do_not_stop_publishers(tmp_path: Path) -> None:
    config = config_of(max_msgs=5)
    workshop = Workshop(tmp_path)
    async with workshop.stream(config) as stream:
        await publish(stream, *message_items(5))
        await stream.checkpoint()
    (file,) = (tmp_path / "S" / "table").glob("base_seq=*/**/*.parquet")
    flip(file, 20)
    workshop.close()
    workshop = Workshop(tmp_path)
    async with workshop.stream(config) as stream:
        await publish(stream, *message_items(2, 6))
        assert all("error" not in answer for answer in workshop.answers.take().values())
        found, damaged = await readable(stream)
        assert set(found) == {6, 7}
        assert damaged == {1, 2, 3, 4, 5}
        assert (await stream.state()).messages == 7
    workshop.close()
