"""A lowered limit of each subject is enforced one run at a time, without reading files on the event loop."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from pathlib import Path

import pytest

from headwater.errors import DiskError
from headwater.stream import committer
from headwater.stream import stream as stream_module
from headwater.stream.retention import subject_limit
from headwater.stream.stream import Stream
from rounds import choose_seed
from stream.streams import Workshop, config_of, everything, publish
from stream.test_older_messages import FileReads
from waits import until


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> FileReads:
    return FileReads(monkeypatch)


async def filled(workshop: Workshop, limit: int) -> tuple[Stream, dict[bytes, list[int]]]:
    """Return a stream with messages on 20 subjects in turns, and their sequences; most are in files."""
    stream, chance, seq = await workshop.open(config_of()), random.Random(choose_seed()), 0
    found = defaultdict[bytes, list[int]](list)
    for part in range(5):
        subjects = [b"s.%d" % min(chance.randrange(20), chance.randrange(20)) for _ in range(limit * 6)]
        for subject in subjects:
            seq += 1
            found[subject].append(seq)
        await publish(stream, *[(subject, b"x") for subject in subjects])
        workshop.answers.take()
        if part < 4:
            await stream.folder.fold()
    return stream, found


@pytest.mark.parametrize("limit", [3, 70])
async def test_the_newest_messages_of_each_subject_stay(
    tmp_path: Path, reads: FileReads, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    """Up to 64 sequences per subject are in memory. Further ones are read from files."""
    monkeypatch.setattr(subject_limit, "HISTORIES", 3)
    workshop = Workshop(tmp_path)
    stream, seqs = await filled(workshop, 40)
    workshop.services.cache._runs.clear()
    reads.on_loop = reads.on_threads = 0
    await stream.reconfigure(config_of(max_msgs_per_subject=limit))
    assert (reads.on_loop, reads.on_threads > 0) == (0, True)
    kept = sorted(seq for each in seqs.values() for seq in each[-limit:])
    assert [message.seq for message in await everything(stream)] == kept
    state = await stream.reading.state()
    await stream.close()
    stream = await workshop.open(config_of(max_msgs_per_subject=limit))
    assert await stream.reading.state() == state
    await stream.close()
    workshop.close()


async def test_messages_that_come_meanwhile_keep_the_limit_too(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    stream, seqs = await filled(workshop, 40)
    changing = asyncio.ensure_future(stream.reconfigure(config_of(max_msgs_per_subject=65)))
    seq = sum(map(len, seqs.values()))
    while not changing.done():
        for subject in (b"s.0", b"s.1", b"s.19", b"s.new"):
            seq += 1
            seqs[subject].append(seq)
        await publish(stream, *[(subject, b"y") for subject in (b"s.0", b"s.1", b"s.19", b"s.new")])
        workshop.answers.take()
        await asyncio.sleep(0)
    await changing
    kept = sorted(seq for each in seqs.values() for seq in each[-65:])
    assert [message.seq for message in await everything(stream)] == kept
    await stream.close()
    workshop.close()


async def test_a_limit_that_the_disk_refuses_to_enforce_is_enforced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    monkeypatch.setattr(stream_module, "REMOVE_FIRST_S", 0.001)
    workshop = Workshop(tmp_path)
    stream, seqs = await filled(workshop, 40)
    sync = stream._store.log.sync

    def failing() -> None:
        monkeypatch.setattr(stream._store.log, "sync", sync)
        raise DiskError(stream.directory, "sync", 28)

    monkeypatch.setattr(stream._store.log, "sync", failing)
    await stream.reconfigure(config_of(max_msgs_per_subject=70))
    assert stream.config.max_msgs_per_subject == 70
    kept = sorted(seq for each in seqs.values() for seq in each[-70:])
    await until(lambda: stream._store.ledger.messages == len(kept) and stream.publishing.is_storing)
    assert [message.seq for message in await everything(stream)] == kept
    await stream.close()
    workshop.close()
