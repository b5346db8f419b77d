"""A store opens what lies in its directory, and finds the newest message of a subject from the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.errors import CorruptionError
from headwater.model.stream import Storage
from headwater.stream.store import FOLD
from stream.streams import Workshop, config_of, everything, publish


@pytest.mark.parametrize("storage", list(Storage))
async def test_a_stream_reads_back_what_it_held(tmp_path: Path, storage: Storage) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream(storage=storage) as stream:
        await publish(stream, (b"a", b"1"), (b"b", b"2"))
        await stream.folder.fold()
        await publish(stream, (b"c", b"3"))
        before, state = await everything(stream), await stream.state()
    async with workshop.stream(storage=storage) as stream:
        assert await everything(stream) == before
        assert await stream.state() == state


async def test_opening_reads_no_message_of_the_table(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"%d" % n) for n in range(100)])
        await stream.checkpoint()
    for file in (tmp_path / "S" / "table").glob("base_seq=*/*.parquet"):
        file.write_bytes(b"")
    async with workshop.stream() as stream:
        assert (await stream.state()).messages == 100


async def test_a_damaged_checkpoint_is_refused_by_name(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"))
        await stream.checkpoint()
    path = tmp_path / "S" / "checkpoint"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CorruptionError, match="checkpoint"):
        await workshop.open(config_of())


async def test_the_newest_of_a_subject_is_found_however_far_back(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream() as stream:
        await publish(stream, (b"rare", b""), (b"rare", b""))
        for _ in range(10):
            await publish(stream, *[(b"often", b"")] * 1000)
        await stream.folder.fold()
        store = stream._store
        assert store.find_last(b"rare", 10_002) == 2
        assert store.find_last(b"rare", 1) == 1
        assert store.find_last(b"often", 10_002) == 10_002
        assert store.find_last(b"none", 10_002) == 0


async def test_a_fold_committed_during_a_replay_is_not_folded_again(tmp_path: Path) -> None:
    async with Workshop(tmp_path).stream() as stream:
        await publish(stream, (b"a", b"1"), (b"a", b"2"))
        replayed = stream._store.replay()
        assert len(replayed.view.head) == 1
        await stream.folder.fold()
        stream._store.adopt(replayed)
        assert stream._store.table.transaction(FOLD) == 2
        assert len(stream._store.head) == 0
        assert [message.data for message in await everything(stream)] == [b"1", b"2"]
