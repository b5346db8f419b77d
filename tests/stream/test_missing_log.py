"""A stream whose checkpoint or log is missing is refused: it neither loses messages nor reuses sequences."""

from __future__ import annotations

import shutil
from errno import ENOSPC
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError
from headwater.log import checkpoint_copy, newest
from headwater.log.recovery import numbers_in
from headwater.log.segment import segment_path
from headwater.stream.missing_log import MissingLogError
from headwater.stream.store import Store
from headwater.stream.stream import Stream
from stream.streams import Workshop, config_of, publish, seqs_of


def home(workshop: Workshop) -> Path:
    return workshop.directory / "S"


async def folded(workshop: Workshop) -> None:
    """Have a stream with messages 1 and 2 before its checkpoint, 3 in its table since, and 4 in its log."""
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"one"), (b"b", b"two"))
        await stream.checkpoint()
        stream._store.checkpoint_bytes = 1 << 30  # the next fold writes no checkpoint
        await publish(stream, (b"c", b"three"))
        await stream.folder.fold()
        await publish(stream, (b"d", b"four"))
        await stream.consumers.restore({"reader": b"position"})


async def refused(workshop: Workshop, match: str) -> None:
    before = sorted(path for path in home(workshop).rglob("*") if path.is_file())
    with pytest.raises(CorruptionError, match=match):
        async with workshop.stream():
            pass
    assert sorted(path for path in home(workshop).rglob("*") if path.is_file()) == before


@pytest.mark.parametrize("is_folder_left", [True, False])
async def test_a_stream_without_its_log_is_refused(workshop: Workshop, is_folder_left: bool) -> None:
    await folded(workshop)
    shutil.rmtree(home(workshop) / "log")
    if is_folder_left:
        (home(workshop) / "log").mkdir()
    await refused(workshop, "segment 2 and all later ones are missing")


async def test_a_log_that_is_older_than_the_table_is_refused(workshop: Workshop) -> None:
    await folded(workshop)
    files = ("checkpoint", "checkpoint.copy", "log", newest.FILE)
    for name in files:
        path = home(workshop) / name
        (shutil.copytree if path.is_dir() else shutil.copyfile)(path, workshop.directory / name)
    async with workshop.stream() as stream:
        await publish(stream, (b"e", b"five"))
        await stream.folder.fold()
    shutil.rmtree(home(workshop) / "log")
    for name in files:
        (workshop.directory / name).replace(home(workshop) / name)
    await refused(workshop, "it ends at sequence 4, but the table at 5")


def newest_segment(workshop: Workshop) -> Path:
    log = home(workshop) / "log"
    return segment_path(log, max(numbers_in(log, RealDisk())))


@pytest.mark.parametrize("is_emptied", [True, False])
async def test_a_log_without_its_newest_segment_is_refused(workshop: Workshop, is_emptied: bool) -> None:
    await folded(workshop)
    lost = newest_segment(workshop)
    lost.unlink()
    if is_emptied:
        lost.touch()
    with pytest.raises(MissingLogError, match=f"segment {int(lost.stem)}, the newest one, is missing"):
        Store(home(workshop), config_of(), workshop.services)
    # Not only once.
    with pytest.raises(MissingLogError, match="is missing"):
        Store(home(workshop), config_of(), workshop.services)


async def test_the_only_segment_of_a_new_stream_is_missed(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"one"))
    newest_segment(workshop).unlink()
    await refused(workshop, "segment 1, the newest one, is missing")


async def test_what_is_left_of_a_log_is_taken_if_asked_for(workshop: Workshop) -> None:
    await folded(workshop)
    async with workshop.stream() as stream:
        await publish(stream, (b"e", b"five"))
    lost = newest_segment(workshop)
    lost.unlink()
    store = Store(home(workshop), config_of(), workshop.services, forgiving=True)
    assert (store.ledger.messages, store.ledger.last_seq > 5) == (4, True)
    last_seq = store.ledger.last_seq
    store.close()
    # Nothing is accepted until a new segment is begun, and a checkpoint says where it begins.
    with pytest.raises(MissingLogError):
        Store(home(workshop), config_of(), workshop.services)
    store = Store(home(workshop), config_of(), workshop.services, forgiving=True)
    stream = Stream(config_of(), 0, store)
    await stream.checkpoint()
    await stream.close()
    assert newest_segment(workshop) > lost
    async with workshop.stream() as again:
        assert await seqs_of(again) == [1, 2, 3, 4]
        assert again._store.ledger.last_seq == last_seq


async def test_a_store_of_an_earlier_release_has_no_record(workshop: Workshop) -> None:
    await folded(workshop)
    (home(workshop) / newest.FILE).unlink()
    async with workshop.stream() as stream:
        assert await seqs_of(stream) == [1, 2, 3, 4]
        await publish(stream, (b"e", b"five"))
    assert newest.read(RealDisk(), home(workshop) / newest.FILE) == int(newest_segment(workshop).stem)


async def test_a_damaged_record_costs_nothing_but_the_notice(workshop: Workshop) -> None:
    await folded(workshop)
    (home(workshop) / newest.FILE).write_bytes(b"{")
    async with workshop.stream() as stream:
        assert await seqs_of(stream) == [1, 2, 3, 4]


async def test_a_missing_checkpoint_is_replaced_by_its_copy(workshop: Workshop) -> None:
    await folded(workshop)
    async with workshop.stream() as stream:
        await stream.checkpoint()
    (home(workshop) / "checkpoint").unlink()
    async with workshop.stream() as stream:
        assert await seqs_of(stream) == [1, 2, 3, 4]
        assert stream.consumers.recorded("reader") == [b"position"]
    assert (home(workshop) / "checkpoint").exists()


@pytest.mark.parametrize("names", [(), ("log",)])
async def test_a_stream_without_both_checkpoints_is_not_taken_for_a_new_one(
    workshop: Workshop, names: tuple[str, ...]
) -> None:
    await folded(workshop)
    for name in names:
        shutil.rmtree(home(workshop) / name)
    for name in ("checkpoint", "checkpoint.copy"):
        (home(workshop) / name).unlink()
    await refused(workshop, "the checkpoint is missing")


async def test_a_table_without_a_first_checkpoint_is_no_damage(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*args: object) -> None:
        raise DiskError(home(workshop), "write", ENOSPC)

    monkeypatch.setattr(checkpoint_copy, "write_both", full)
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"one"))
        with pytest.raises(DiskError):
            await stream.folder.fold()
        await publish(stream, (b"b", b"two"))
    assert not (home(workshop) / "checkpoint").exists()
    async with workshop.stream() as stream:
        assert stream._store.table.files
        assert await seqs_of(stream) == [1, 2]


async def test_what_the_table_has_is_taken_if_asked_for_and_no_sequence_is_used_again(
    workshop: Workshop,
) -> None:
    await folded(workshop)
    shutil.rmtree(home(workshop) / "log")
    with pytest.raises(MissingLogError):
        Store(home(workshop), config_of(), workshop.services)
    store = Store(home(workshop), config_of(), workshop.services, forgiving=True)
    assert store.ledger.messages == 3
    assert store.ledger.last_seq > 4
    store.close()
