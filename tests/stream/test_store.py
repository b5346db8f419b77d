"""A store opens what is in its directory, and finds the newest message of a subject from the end."""

from __future__ import annotations

import threading
from errno import EIO
from pathlib import Path
from typing import Any, cast

import pytest

from headwater.errors import CorruptionError, DiskError
from headwater.log import checkpoint
from headwater.log.checkpoint_copy import write_both
from headwater.model.run import Run
from headwater.model.stream import Storage
from headwater.stream.store import FOLD
from stream.streams import SECOND, Workshop, config_of, everything, headers, publish, seqs_of
from waits import until


@pytest.mark.parametrize("storage", list(Storage))
async def test_a_stream_reads_back_what_it_held(tmp_path: Path, storage: Storage) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream(storage=storage) as stream:
        await publish(stream, (b"a", b"1"), (b"b", b"2"))
        await stream.folder.fold()
        await publish(stream, (b"c", b"3"))
        before, state = await everything(stream), await stream.reading.state()
    async with workshop.stream(storage=storage) as stream:
        assert await everything(stream) == before
        assert await stream.reading.state() == state


async def test_opening_reads_no_message_of_the_table(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"%d" % n) for n in range(100)])
        await stream.checkpoint()
    for file in (tmp_path / "S" / "table").glob("base_seq=*/**/*.parquet"):
        file.write_bytes(b"")
    async with workshop.stream() as stream:
        assert (await stream.reading.state()).messages == 100


async def test_a_damaged_checkpoint_is_replaced_by_its_copy_or_refused_by_name(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"))
        await stream.checkpoint()
    path, copy = tmp_path / "S" / "checkpoint", tmp_path / "S" / "checkpoint.copy"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    async with workshop.stream() as stream:
        assert (await stream.reading.state()).last_seq == 1
    for each in (path, copy):
        each.write_bytes(whole[:-1])
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


async def test_a_table_opened_again_during_a_replay_is_the_one_that_is_read_afterwards(
    workshop: Workshop,
) -> None:
    """Readers of the old table would not find messages that are folded later."""
    async with workshop.stream() as stream:
        store = stream._store
        await publish(stream, (b"a", b"1"))
        replayed = store.replay()
        store.replace_table(store.open_table())
        store.adopt(replayed)
        stream._acceptor.configure()
        await publish(stream, (b"a", b"2"))
        await stream.folder.fold()
        assert [message.data for message in await everything(stream)] == [b"1", b"2"]


async def test_a_stream_that_never_was_starts_at_its_first_sequence(workshop: Workshop) -> None:
    for first_seq, wanted in ((0, (0, 0)), (100, (100, 99))):
        async with workshop.stream(name=f"S{first_seq}", first_seq=first_seq) as stream:
            ledger = stream._store.ledger
            assert (ledger.first_seq, ledger.last_seq) == wanted
            await publish(stream, (b"a", b"1"), (b"a", b"2"))
            await stream.retention.remove(first_seq or 1)
            await stream.checkpoint()
        async with workshop.stream(name=f"S{first_seq}", first_seq=first_seq) as stream:
            assert stream.reading.first_seq == stream.reading.durable_seq == (first_seq or 1) + 1


async def test_history_is_built_from_head_and_body_without_what_goes_meanwhile(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"b", b"22"), (b"a", b"333"))
        await stream.folder.fold()
        await publish(stream, (b"a", b"4"), (b"c", b"5"))
        await stream.retention.remove(5)
        store = stream._store
        run_at = store.view.run_at

        async def removing(seq: int) -> Run | None:
            if seq > 3 and store.ledger.is_live(1):
                stream._sequencer.remove(stream.retention.removal_of([1])[0])
            return await run_at(seq)

        monkeypatch.setattr(store.view, "run_at", removing)
        await store.build_history()
        assert store.ledger.subjects.history == {b"a": ((3, 34), (4, 32)), b"b": ((2, 33),)}


async def test_history_has_no_message_that_was_read_and_then_refused(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its sequence now belongs to another message, which a limit would remove instead."""
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"a", b"2"))
        await stream.folder.fold()
        store: Any = stream._store
        view, log, is_read = store.view, store.log, threading.Event()
        run_at, sync = view.run_at, log.sync

        def refused() -> None:
            log.sync = sync
            assert is_read.wait(60)
            raise DiskError(store.directory, "sync", EIO)

        async def failing(seq: int) -> Run | None:
            if seq == 1:
                log.sync = refused
                stream.publishing.offer([(b"a", b"", b"", b"refused")])
            if seq == 4:
                is_read.set()
                await until(lambda: store.generation > 1 and stream.publishing.is_storing)
                await publish(stream, (b"b", b"3"))
            return cast("Run | None", await run_at(seq))

        monkeypatch.setattr(view, "run_at", failing)
        await stream.reconfigure(config_of(max_msgs_per_subject=2))
        assert set(store.ledger.subjects.history) == {b"a", b"b"}
        await publish(stream, *[(b"a", b"") for _ in range(5)])
        assert [m.seq for m in await everything(stream)] == [3, 7, 8]


async def test_a_memory_stream_counts_sizes_as_nats_server_does_in_memory(workshop: Workshop) -> None:
    block = headers(K="v")
    for storage, overhead in ((Storage.FILE, 34), (Storage.MEMORY, 16)):
        async with workshop.stream(name=str(storage), storage=storage) as stream:
            await publish(stream, (b"abc", b"12345", block))
            assert (await stream.reading.state()).bytes == 3 + 5 + len(block) + overhead


async def test_remembered_ids_are_taken_back_within_the_window_of_now(workshop: Workshop) -> None:
    window = 10 * SECOND
    async with workshop.stream(duplicate_window=window) as stream:
        await publish(stream, (b"a", b"", headers(Nats_Msg_Id="old")))
        await stream.checkpoint()
        workshop.clock.advance(8 * SECOND)
        await publish(stream, (b"a", b"", headers(Nats_Msg_Id="new")))
    workshop.clock.advance(3 * SECOND)
    async with workshop.stream(duplicate_window=window) as stream:
        dedupe, now = stream._store.ledger.dedupe, workshop.clock.now_ns()
        assert (dedupe.find(b"old", now), dedupe.find(b"new", now)) == (None, 2)


async def test_a_checkpoint_that_a_fenced_engine_put_back_is_not_used(
    workshop: Workshop, caplog: pytest.LogCaptureFixture
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, *[(b"a", b"1")] * 3)
        await stream.checkpoint()
        stale = (stream.directory / "checkpoint").read_bytes()
        await publish(stream, *[(b"a", b"2")] * 3)
        await stream.retention.purge(seq=3)
        await stream.checkpoint()
        taken = checkpoint.read(stream._store.disk, stream.directory / "checkpoint")
        assert taken is not None
        write_both(stream._store.disk, stream.directory / "checkpoint", *taken[:2], 2)
        (stream.directory / "checkpoint").write_bytes(stale)
    async with workshop.stream() as stream:
        assert await seqs_of(stream) == [3, 4, 5, 6]
        assert not stream._store.ledger.lost
        assert checkpoint.read(stream._store.disk, stream.directory / "checkpoint") == taken._replace(epoch=2)
    assert "the copy is used, and nothing is lost" in caplog.text
