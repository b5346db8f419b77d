"""A bulk write is stored as one change with the record of its query: once, whatever happens."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bulk import Row, rows_of
from doors import services
from headwater.errors import ApiError, DiskError
from headwater.model.message import Message
from headwater.model.stream import Discard, Retention, StreamConfig
from headwater.model.upstream import StreamSource, TransformConfig
from headwater.stream.bulk import bulk as module
from headwater.stream.bulk import file_ids
from headwater.stream.bulk.staged_part import BulkRefusedError, StagedFile
from headwater.stream.stream import Stream
from seaweed import SeaweedServer
from stream.bucket_streams import BucketWorkshop
from waits import until

CONFIG = StreamConfig(name="T", subjects=("t.>",), duplicate_window=120 * 10**9)


@asynccontextmanager
async def opened(directory: Path, config: StreamConfig = CONFIG) -> AsyncIterator[Stream]:
    async with services(directory) as shared:
        stream = await Stream.open(directory / "T", config, created_ns=1, services=shared)
        yield stream
        await stream.close()


async def staged(stream: Stream, rows: Sequence[Row]) -> StagedFile:
    part = await stream.bulk.begin()
    await stream.bulk.append(part, rows_of(rows).encode())
    return await stream.bulk.finish(part)


async def write(stream: Stream, batch: int, *parts: Sequence[Row], query: str = "q") -> int | None:
    return await stream.bulk.commit(query, batch, [await staged(stream, rows) for rows in parts])


async def held(stream: Stream) -> list[Message]:
    return [m async for many in stream.reading.scan(1) for m in many]


async def texts(stream: Stream) -> list[str]:
    return [m.data.decode() for m in await held(stream)]


def numbered(count: int, subject: str = "t.a", start: int = 0) -> list[Row]:
    return [(subject, b"%d" % n) for n in range(start, start + count)]


def with_header(subject: str, data: bytes, name: str, value: str) -> Row:
    return subject, data, f"NATS/1.0\r\n{name}: {value}\r\n\r\n".encode()


def changed(**fields: Any) -> StreamConfig:
    return StreamConfig(**{"name": "T", "subjects": ("t.>",), **fields})


async def test_a_batch_of_several_parts_is_stored_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        stream.publishing.offer([(b"t.x", b"", b"", b"before")])
        assert await write(stream, 0, numbered(3), numbered(2, "t.b", 3)) == 5
        assert await write(stream, 0, numbered(3, start=90)) is None
        stream.publishing.offer([(b"t.x", b"", b"", b"after")])
        await stream.publishing.settled()
        assert await texts(stream) == ["before", "0", "1", "2", "3", "4", "after"]
        assert [m.seq for m in await held(stream)] == list(range(1, 8))
        assert stream.reading.subject_counts("t.a") == {b"t.a": 3}
        assert stream.bulk.has("q", 0)
        assert not stream.bulk.has("q", 1)
        assert not stream.bulk.has("other", 0)


@pytest.mark.parametrize("config", [CONFIG, changed(max_msgs_per_subject=50)])
async def test_the_record_is_there_after_a_restart_and_a_checkpoint(
    tmp_path: Path, config: StreamConfig
) -> None:
    async with opened(tmp_path, config) as stream:
        await write(stream, 4, numbered(3))
    async with opened(tmp_path, config) as stream:
        assert await write(stream, 4, numbered(3)) is None
        assert await write(stream, 3, numbered(3)) is None
        await stream.checkpoint()
    async with opened(tmp_path, config) as stream:
        assert await write(stream, 4, numbered(3)) is None
        assert await write(stream, 5, numbered(2, start=3)) == 2
        assert await texts(stream) == ["0", "1", "2", "3", "4"]


async def test_each_query_has_its_own_batches(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        assert await write(stream, 7, numbered(1), query="a") == 1
        assert await write(stream, 0, numbered(1), query="b") == 1


async def test_an_empty_batch_is_recorded(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        assert await stream.bulk.commit("q", 1, []) == 0
        assert await stream.bulk.commit("q", 1, []) is None
        assert await texts(stream) == []


async def test_what_was_staged_and_not_committed_is_gone_after_a_restart(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        await staged(stream, numbered(3))
        unfinished = await stream.bulk.begin()
        await stream.bulk.append(unfinished, rows_of(numbered(20_000)).encode())
    assert len(list((tmp_path / "T" / "staging").iterdir())) == 2
    async with opened(tmp_path) as stream:
        assert not list((tmp_path / "T" / "staging").iterdir())
        assert await texts(stream) == []


async def test_a_refused_sync_stores_nothing_and_the_commit_can_be_repeated(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        file = await staged(stream, numbered(3))
        log = stream._store.log
        sync, failures = log.sync, [DiskError(tmp_path, "sync", 5)]

        def failing() -> None:
            if failures:
                raise failures.pop()
            sync()

        log.sync = failing  # type: ignore[method-assign]
        with pytest.raises(ApiError):
            await stream.bulk.commit("q", 0, [file])
        assert not stream.bulk.has("q", 0)
        await until(lambda: stream.publishing.failure is None)
        assert await stream.bulk.commit("q", 0, [file]) == 3
        assert await texts(stream) == ["0", "1", "2"]


async def test_a_part_of_a_refused_commit_stays_while_the_log_may_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as stream:
        await write(stream, 0, numbered(1, start=9), query="first")
        file = await staged(stream, numbered(3))
        log = stream._store.log

        def failing(*_: object) -> None:
            raise DiskError(tmp_path, "sync", 5)

        with monkeypatch.context() as broken:
            broken.setattr(log, "sync", failing)
            broken.setattr(log, "_start", failing)
            broken.setattr(log._file, "truncate", failing)
            with pytest.raises(ApiError):
                await stream.bulk.commit("q", 0, [file])
            await stream.bulk.discard([file])
            killed = tmp_path / "killed"
            shutil.copytree(tmp_path / "T", killed / "T")
        async with opened(killed) as other:
            assert await texts(other) == ["9", "0", "1", "2"]
        await until(lambda: stream.publishing.failure is None)
        with pytest.raises(BulkRefusedError, match="does not have all parts"):
            await stream.bulk.commit("q", 0, [file])
        assert await write(stream, 0, numbered(2)) == 2
        assert not list((tmp_path / "T" / "staging").iterdir())


async def test_ids_that_the_window_knows_are_left_out(tmp_path: Path) -> None:
    rows = [with_header("t.a", b"%d" % n, "Nats-Msg-Id", f"id{n % 3}") for n in range(5)]
    async with opened(tmp_path) as stream:
        assert await write(stream, 0, rows) == 3
        assert await write(stream, 1, rows) == 0
        assert await texts(stream) == ["0", "1", "2"]
    async with opened(tmp_path / "without", changed(duplicate_window=0)) as stream:
        assert await write(stream, 0, rows) == 5


def identified(*ids: str, start: int = 0) -> list[Row]:
    return [with_header("t.a", b"%d" % n, "Nats-Msg-Id", each) for n, each in enumerate(ids, start)]


async def test_messages_with_ids_are_adopted_as_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RULED_MESSAGES", 3)
    async with opened(tmp_path) as stream:
        assert await write(stream, 0, identified("a", "b", "c"), identified("d", "e", start=3)) == 5
        assert not len(stream._store.head)
        assert await texts(stream) == ["0", "1", "2", "3", "4"]


@pytest.mark.parametrize("checkpoint", [False, True])
async def test_ids_of_files_are_known_after_a_restart(tmp_path: Path, checkpoint: bool) -> None:
    async with opened(tmp_path) as stream:
        stream.publishing.offer([(b"t.x", b"", b"", b"first")])
        assert await write(stream, 0, identified("a", "b"), [("t.a", b"2"), *identified("c", start=3)]) == 4
        if checkpoint:
            await stream.checkpoint()
    async with opened(tmp_path) as stream:
        ledger, now_ns = stream._store.ledger, stream._store.services.clock.now_ns()
        assert [ledger.dedupe.find(each, now_ns) for each in (b"a", b"b", b"c", b"d")] == [2, 3, 5, None]
        assert ledger.last_message_id == b"c"
        stream.publishing.offer([(b"t.x", b"", b"NATS/1.0\r\nNats-Msg-Id: b\r\n\r\n", b"again")])
        assert await write(stream, 1, identified("c", "d", start=10)) == 1
        assert await texts(stream) == ["first", "0", "1", "2", "3", "11"]
        assert not list((tmp_path / "T" / "staging").glob("*.tmp"))


async def test_an_id_that_is_published_during_the_commit_is_stored_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as stream:
        file = await staged(stream, identified("a", "b", "c"))
        publish = [(b"t.x", b"", b"NATS/1.0\r\nNats-Msg-Id: b\r\n\r\n", b"published")]
        on_thread, offers = stream._store.on_thread, [publish]

        async def overtaken(call: Any, *args: Any) -> Any:
            found = await on_thread(call, *args)
            if call is file_ids.identified and offers:
                stream.publishing.offer(offers.pop())
            return found

        monkeypatch.setattr(stream._store, "on_thread", overtaken)
        assert await stream.bulk.commit("q", 0, [file]) == 2
        assert await texts(stream) == ["published", "0", "2"]


async def test_a_batch_whose_ids_are_always_overtaken_is_refused_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as stream:
        file = await staged(stream, identified("a", "b"))
        monkeypatch.setattr(module, "_overtaken", lambda *_: True)
        with pytest.raises(BulkRefusedError, match="write the batch again"):
            await stream.bulk.commit("q", 0, [file])
        monkeypatch.undo()
        assert await stream.bulk.commit("q", 0, [file]) == 2


async def test_a_change_of_the_stream_during_a_commit_with_ids_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as stream:
        file = await staged(stream, identified("a"))
        on_thread = stream._store.on_thread

        async def changing(call: Any, *args: Any) -> Any:
            found = await on_thread(call, *args)
            if call is file_ids.identified:
                await stream.reconfigure(changed(max_msgs_per_subject=1, duplicate_window=10**9))
            return found

        monkeypatch.setattr(stream._store, "on_thread", changing)
        with pytest.raises(BulkRefusedError, match="was changed during the commit"):
            await stream.bulk.commit("q", 0, [file])
        assert await stream.bulk.commit("q", 0, [file]) == 1


async def test_a_refused_sync_forgets_the_ids_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        file = await staged(stream, identified("a", "b"))
        log = stream._store.log
        sync, failures = log.sync, [DiskError(tmp_path, "sync", 5)]

        def failing() -> None:
            if failures:
                raise failures.pop()
            sync()

        log.sync = failing  # type: ignore[method-assign]
        with pytest.raises(ApiError):
            await stream.bulk.commit("q", 0, [file])
        await until(lambda: stream.publishing.failure is None)
        assert await stream.bulk.commit("q", 0, [file]) == 2
        assert await texts(stream) == ["0", "1"]


async def test_an_abort_during_a_commit_with_ids_refuses_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path) as stream:
        files = [await staged(stream, identified("a", "b")), await staged(stream, identified("b", "c"))]
        on_thread = stream._store.on_thread

        async def aborting(call: Any, *args: Any) -> Any:
            found = await on_thread(call, *args)
            if call is file_ids.identified:
                await stream.bulk.discard(files)
            return found

        monkeypatch.setattr(stream._store, "on_thread", aborting)
        with pytest.raises(BulkRefusedError, match="does not have all parts"):
            await stream.bulk.commit("q", 0, files)
        assert await texts(stream) == []
        assert not list((tmp_path / "T" / "staging").iterdir())


async def test_more_ids_than_fit_into_memory_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_IDS", 2)
    async with opened(tmp_path) as stream:
        with pytest.raises(BulkRefusedError, match="may have 2 messages at most"):
            await write(stream, 0, identified("a", "b", "c"))


async def test_a_stream_without_a_window_knows_the_last_id(tmp_path: Path) -> None:
    config = changed(duplicate_window=0)
    for _ in range(2):
        async with opened(tmp_path, config) as stream:
            await write(stream, 0, identified("a", "a"), identified("b", start=2))
            assert stream._store.ledger.last_message_id == b"b"
            assert await texts(stream) == ["0", "1", "2"]


async def test_the_limit_of_a_subject_holds(tmp_path: Path) -> None:
    async with opened(tmp_path, changed(max_msgs_per_subject=2)) as stream:
        stream.publishing.offer([(b"t.a", b"", b"", b"old")])
        assert await write(stream, 0, numbered(4), numbered(1, "t.b")) == 5
        assert await texts(stream) == ["2", "3", "0"]


async def test_a_full_stream_that_discards_new_messages_takes_all_or_none(tmp_path: Path) -> None:
    async with opened(tmp_path, changed(discard=Discard.NEW, max_msgs=3)) as stream:
        with pytest.raises(ApiError, match="maximum messages exceeded"):
            await write(stream, 0, numbered(4))
        assert await texts(stream) == []
        assert await write(stream, 0, numbered(3)) == 3


async def test_totals_remove_the_oldest_messages(tmp_path: Path) -> None:
    async with opened(tmp_path, changed(max_msgs=3)) as stream:
        assert await write(stream, 0, numbered(5)) == 5
        assert await texts(stream) == ["2", "3", "4"]


async def test_what_a_message_expects_is_checked_for_the_whole_batch(tmp_path: Path) -> None:
    first = with_header("t.a", b"1", "Nats-Expected-Last-Sequence", "1")
    async with opened(tmp_path) as stream:
        with pytest.raises(ApiError, match="wrong last sequence"):
            await write(stream, 0, [first, ("t.a", b"2")])
        assert await texts(stream) == []
        stream.publishing.offer([(b"t.a", b"", b"", b"0")])
        assert await write(stream, 0, [first, ("t.a", b"2")]) == 2
        assert await texts(stream) == ["0", "1", "2"]


async def test_a_rollup_removes_what_it_replaces(tmp_path: Path) -> None:
    rows = [with_header("t.a", b"sum", "Nats-Rollup", "sub"), ("t.b", b"more")]
    async with opened(tmp_path, changed(allow_rollup_hdrs=True)) as stream:
        assert await write(stream, 0, numbered(3)) == 3
        assert await write(stream, 1, rows) == 2
        assert await texts(stream) == ["sum", "more"]
    async with opened(tmp_path / "not", CONFIG) as stream:
        with pytest.raises(ApiError, match="rollup not permitted"):
            await write(stream, 0, rows)


async def test_a_time_to_live_is_obeyed_or_refused(tmp_path: Path) -> None:
    rows = [with_header("t.a", b"1", "Nats-TTL", "1h")]
    async with opened(tmp_path, changed(allow_msg_ttl=True)) as stream:
        assert await write(stream, 0, rows) == 1
        assert stream._store.ledger.expiry.dump()
    async with opened(tmp_path / "not", CONFIG) as stream:
        with pytest.raises(ApiError, match="TTL"):
            await write(stream, 0, rows)


async def test_a_message_that_is_too_large_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path, changed(max_msg_size=5)) as stream:
        with pytest.raises(ApiError, match="exceeds maximum"):
            await write(stream, 0, [("t.a", b"123456")])
        assert await write(stream, 0, [("t.a", b"12345")]) == 1


async def test_a_transform_maps_the_subjects(tmp_path: Path) -> None:
    config = changed(subject_transform=TransformConfig("t.*", "u.$1"))
    async with opened(tmp_path, config) as stream:
        assert await write(stream, 0, numbered(1)) == 1
        assert stream.reading.subject_counts(">") == {b"u.a": 1}


async def test_interest_and_work_queues_are_written_by_their_rules(tmp_path: Path) -> None:
    async with opened(tmp_path / "i", changed(retention=Retention.INTEREST)) as stream:
        assert await write(stream, 0, numbered(2)) == 2
        assert await texts(stream) == []
    async with opened(tmp_path / "w", changed(retention=Retention.WORKQUEUE)) as stream:
        assert await write(stream, 0, numbered(2)) == 2
        assert await texts(stream) == ["0", "1"]


async def test_mirrors_and_sealed_streams_refuse(tmp_path: Path) -> None:
    mirror = StreamConfig(name="T", mirror=StreamSource(name="O"))
    for directory, config in (("m", mirror), ("s", changed(sealed=True))):
        async with opened(tmp_path / directory, config) as stream:
            with pytest.raises(ApiError, match=r"stream mirrors can not contain subjects|sealed stream"):
                await stream.bulk.begin()
            with pytest.raises(ApiError):
                await stream.bulk.commit("q", 0, [])


async def test_a_batch_that_the_rules_cannot_check_in_one_turn_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_RULED_MESSAGES", 3)
    async with opened(tmp_path, changed(max_msgs_per_subject=1)) as stream:
        with pytest.raises(BulkRefusedError, match=r"smaller batches: .*maxMessagesPerTrigger.*batchId"):
            await write(stream, 0, numbered(4))
        assert await write(stream, 0, numbered(3)) == 3


async def test_a_subject_that_the_stream_has_lost_since_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as stream:
        file = await staged(stream, numbered(1))
        await stream.reconfigure(changed(subjects=("u.>",)))
        with pytest.raises(BulkRefusedError, match=r"no longer has the subject 't\.a'"):
            await stream.bulk.commit("q", 0, [file])


async def test_a_batch_with_too_many_subjects_for_one_turn_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_SUBJECTS", 3)
    async with opened(tmp_path) as stream:
        parts = [numbered(2, f"t.{n}") for n in range(4)]
        with pytest.raises(BulkRefusedError, match="write smaller batches"):
            await write(stream, 0, *parts)
        assert await write(stream, 0, *parts[:3]) == 6


@pytest.mark.parametrize("config", [CONFIG, changed()])
async def test_subjects_and_ids_fit_into_one_batch_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: StreamConfig
) -> None:
    monkeypatch.setattr(module, "MOST_NOTED_BYTES", 100)
    async with opened(tmp_path, config) as stream:
        long_id = [with_header("t.a", b"", "Nats-Msg-Id", "x" * 120)]
        for rows in (numbered(1, "t." + "y" * 120), long_id):
            with pytest.raises(BulkRefusedError, match="write smaller batches"):
                await write(stream, 0, rows)
        assert await write(stream, 0, numbered(2)) == 2
        assert await texts(stream) == ["0", "1"]


async def test_a_failure_in_the_middle_takes_everything_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(tmp_path, changed(max_msgs_per_subject=5)) as stream:
        sequencer = stream._sequencer
        store_one, calls = sequencer.store_one, [0]

        def failing(*args: Any) -> None:
            calls[0] += 1
            if calls[0] == 2:
                raise ZeroDivisionError
            store_one(*args)

        monkeypatch.setattr(sequencer, "store_one", failing)
        with pytest.raises(ZeroDivisionError):
            await write(stream, 0, numbered(3))
        await until(lambda: stream.publishing.failure is None)
        assert await texts(stream) == []
        assert await write(stream, 0, numbered(3)) == 3
        assert await texts(stream) == ["0", "1", "2"]


async def test_a_table_in_a_bucket_takes_bulk_writes(
    tmp_path: Path, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    workshop = BucketWorkshop(tmp_path, seaweed_server)
    for config in (CONFIG, changed(name="R", max_msgs_per_subject=100)):
        for batch in (0, 1, 1):
            stream = await workshop.open(config)
            assert stream.replica.staging.is_remote
            await write(stream, batch, numbered(3, start=3 * batch))
            await staged(stream, numbered(2))
            assert await texts(stream) == [str(n) for n in range(3 * (batch + 1))]
            await stream.close()
        assert not list((tmp_path / config.name).glob("staging/*"))
    workshop.close()
