"""Flipped bytes in a log or a table are reported and never served; the rest is served all the same."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError
from headwater.log import Log
from headwater.log.batch import HEAD_SIZE, StoredBatch
from headwater.log.segment import STAMP_SIZE
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
    state = await stream.reading.state()
    for seq in range(1, state.last_seq + 1):
        try:
            message = await stream.reading.message(seq)
        except CorruptionError:
            damaged.add(seq)
            continue
        if message is not None:
            found[seq] = message
    return found, damaged


def places_of_a_record(start: int, batch: bytes) -> dict[str, int]:
    """Return an offset in each part of a record that begins here."""
    head, at = StoredBatch(batch), start + STAMP_SIZE
    body = at + HEAD_SIZE
    fields = {"magic": 0, "version": 4, "flags": 6, "length": 8, "count": 12, "base_seq": 16, "first_seq": 24}
    fields |= {"last_seq": 32, "subjects": 40, "headers": 44, "data": 48, "removed": 52, "notes": 56}
    fields |= {"zero": 60, "body crc": 64, "head crc": 68}
    places = {f"head: {name}": at + offset for name, offset in fields.items()}
    places |= {"stamp": start, "stamp's end": start + STAMP_SIZE - 1}
    places |= {"times": body, "lengths": body + 8 * head.count, "last byte": at + len(batch) - 1}
    return places | {"data": at + len(batch) - 3}


def places_of(segment: Path) -> dict[str, int]:
    """Return an offset in each part of a segment: header, first record, last record."""
    log = Log.open(segment.parent, RealDisk(sync=False))
    stored = [(position.offset - STAMP_SIZE, batch.encoded) for position, batch in log.replay()]
    header = {"magic": 0, "version": 8, "epoch": 12, "number": 16, "previous": 24, "sealed": 32}
    header |= {"zero": 40, "crc": 44}
    places = {f"header: {name}": offset for name, offset in header.items()}
    for which, record in (("first", stored[0]), ("last", stored[-1])):
        places |= {f"{which} {name}": offset for name, offset in places_of_a_record(*record).items()}
    return places


@pytest.mark.parametrize("groups", [1, 4])
async def test_a_flipped_bit_in_any_part_of_the_log_is_reported_and_no_sequence_is_assigned_again(
    tmp_path: Path, groups: int
) -> None:
    workshop = Workshop(tmp_path / "whole")
    before = {message.seq: message for message in await filled(workshop, groups)}
    workshop.close()
    (segment,) = (tmp_path / "whole" / "S" / "log").glob("*.log")
    for name, offset in places_of(segment).items():
        damaged = tmp_path / name
        shutil.copytree(tmp_path / "whole", damaged)
        flip(damaged / "S" / "log" / segment.name, offset)
        workshop = Workshop(damaged)
        lost = set()
        for run in range(3):
            async with workshop.stream() as stream:
                found, _ = await readable(stream)
                state = await stream.reading.state()
                gone = set(before) - set(found)
                assert {seq: before[seq] for seq in found if seq in before} == {
                    seq: found[seq] for seq in found if seq in before
                }, name
                expected = {1, 2} if name.startswith("first") else {2 * groups - 1, 2 * groups}
                assert gone == (set() if name.startswith("header") else expected), name
                lost = set(state.lost.msgs) if state.lost else set()
                assert gone <= lost, name
                assert not lost & set(found), name
                assert state.messages == len(found), name
                assert state.last_seq >= 2 * groups, name
                workshop.answers.frames.clear()
                if run < 2:
                    await publish(stream, *message_items(2, 100))
                    answers = workshop.answers.take()
                    assert all("error" not in answer for answer in answers.values()), name
                    assert not {answer["seq"] for answer in answers.values()} & (set(before) | lost), name
        workshop.close()


async def test_a_damaged_batch_with_a_removal_does_not_keep_the_stream_from_opening(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, *message_items(4))
        await stream.folder.fold()
        size = stream._store.log.size_bytes
        await stream.retention.remove(1)
        await publish(stream, *message_items(2, 5))
        await stream.retention.remove(3)
        await publish(stream, *message_items(2, 7))
    newest = max((tmp_path / "S" / "log").glob("*.log"))
    assert newest.stat().st_size > 60
    flip(newest, 60)
    assert size > 0
    async with workshop.stream() as stream:
        messages = await everything(stream)
        # The removal of 1 is in later batches, too, which know the first sequence.
        assert [message.seq for message in messages] == [2, 4, 5, 6, 7, 8]
        state = await stream.reading.state()
        assert state.messages == 6
        assert stream.reading.subject_counts(">") == {b"s.0": 1, b"s.1": 2, b"s.2": 3}
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
        assert (await stream.reading.state()).messages == 7
    workshop.close()
