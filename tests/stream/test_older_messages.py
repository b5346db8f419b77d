"""Rollups and limits of subjects read no file on the event loop, and messages keep their order."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.errors import ApiError, DiskError
from headwater.model.message import Message
from headwater.stream import committer, older_messages
from headwater.stream.stream import Stream
from headwater.table.table import Table
from rounds import choose_seed
from seaweed import SeaweedServer
from stream.bucket_streams import BucketWorkshop
from stream.streams import Workshop, config_of, everything, headers, publish
from table.samples import columns_of
from waits import until

SUB = headers(Nats_Rollup="sub")


class FileReads:
    """Counts reads of table files by the thread that makes them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.on_loop = 0
        self.on_threads = 0
        self.entered: Callable[[], None] = lambda: None
        read_group, loop_thread = Table.read_group, threading.get_ident()

        def counting(table: Table, *given: Any) -> Any:
            if threading.get_ident() == loop_thread:
                self.on_loop += 1
            else:
                self.on_threads += 1
                self.entered()
            return read_group(table, *given)

        monkeypatch.setattr(Table, "read_group", counting)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> FileReads:
    return FileReads(monkeypatch)


async def filled(workshop: Workshop, **config: Any) -> Stream:
    """Return a stream with three messages on each of 20 subjects, all in files that are not cached."""
    stream = await workshop.open(config_of(**config))
    for number in range(3):
        await publish(stream, *[(b"s.%d" % key, b"%d" % number) for key in range(20)])
        await stream.folder.fold()
        workshop.answers.take()
    return stream


async def held(stream: Stream, subject: str) -> list[bytes]:
    return [message.data for message in await everything(stream, 0, [subject])]


async def test_a_rollup_finds_older_messages_on_a_thread(tmp_path: Path, reads: FileReads) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, allow_rollup_hdrs=True)
    await publish(
        stream, (b"s.3", b"before"), (b"s.3", b"new", SUB), (b"s.3", b"after"), (b"s.4", b"new", SUB)
    )
    assert (reads.on_loop, reads.on_threads > 0) == (0, True)
    answers = workshop.answers.take()
    assert [answers[b"r%d" % n]["seq"] for n in range(4)] == [61, 62, 63, 64]
    assert await held(stream, "s.3") == [b"new", b"after"]
    assert await held(stream, "s.4") == [b"new"]
    assert (await stream.reading.state()).messages == 60 - 3 - 3 + 3
    await stream.close()
    workshop.close()


async def test_a_rollup_of_a_subject_with_wildcards_reads_on_a_thread(
    tmp_path: Path, reads: FileReads
) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, allow_rollup_hdrs=True)
    await publish(stream, (b"s.*", b"new", SUB))
    assert (reads.on_loop, reads.on_threads > 0) == (0, True)
    assert [message.data for message in await everything(stream)] == [b"new"]
    await stream.close()
    workshop.close()


async def test_an_object_that_is_written_again_reads_one_run(tmp_path: Path, reads: FileReads) -> None:
    workshop = Workshop(tmp_path)
    stream = await workshop.open(config_of(allow_rollup_hdrs=True))
    for number in range(5):
        await publish(stream, (b"meta.%d" % number, b"m", SUB), *[(b"chunk.%d" % number, bytes(500))] * 20)
        await stream.folder.fold()
    await publish(stream, (b"meta.2", b"again", SUB))
    assert (reads.on_loop, reads.on_threads) == (0, 1)
    assert await held(stream, "meta.2") == [b"again"]
    await stream.close()
    workshop.close()


@pytest.mark.parametrize("mirrored", [True, False])
@pytest.mark.parametrize("config", [{"allow_rollup_hdrs": True}, {"max_msgs_per_subject": 1}])
async def test_copies_find_older_messages_on_a_thread(
    tmp_path: Path, reads: FileReads, mirrored: bool, config: dict[str, Any]
) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, **config)
    before = (await stream.reading.state()).messages
    copied = [
        Message(1001, 7, b"s.3", SUB, b"new"),
        Message(1002, 8, b"s.5", SUB, b"other"),
        Message(1003, 9, b"s.3", SUB, b"newest"),
    ]
    taken = await stream.replica.take(
        "up", b"", columns_of(copied), lambda seq: b"%d" % seq, 1003, mirrored=mirrored
    )
    assert (taken, reads.on_loop, reads.on_threads > 0) == (3, 0, True)
    assert await held(stream, "s.3") == [b"newest"]
    assert await held(stream, "s.5") == [b"other"]
    assert (await stream.reading.state()).messages == before - (4 if "allow_rollup_hdrs" in config else 0)
    await stream.close()
    workshop.close()


async def test_what_is_published_while_a_copy_looks_for_older_messages_stays(
    tmp_path: Path, reads: FileReads
) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, allow_rollup_hdrs=True)
    reading, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        if not reading.is_set():  # only the copy's search waits
            reading.set()
            go_on.wait(60)

    reads.entered = wait
    rollup = columns_of([Message(1, 7, b"s.3", SUB, b"copied")])
    taking = asyncio.create_task(
        stream.replica.take("up", b"", rollup, lambda seq: b"%d" % seq, 1, mirrored=False)
    )
    await until(reading.is_set)
    await publish(stream, (b"s.3", b"meanwhile"), (b"s.4", b"meanwhile"))
    await stream.retention.remove(4)
    go_on.set()
    assert await taking == 1
    assert reads.on_loop == 0
    assert await held(stream, "s.3") == [b"copied"]
    assert await held(stream, "s.4") == [b"0", b"1", b"2", b"meanwhile"]
    await stream.close()
    workshop.close()


async def test_a_copy_whose_cursor_moves_while_it_looks_is_refused(tmp_path: Path, reads: FileReads) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, allow_rollup_hdrs=True)
    rollup = columns_of([Message(1, 7, b"s.3", SUB, b"copied")])
    takes = [
        stream.replica.take("up", b"", rollup, lambda seq: b"%d" % seq, 1, mirrored=False) for _ in range(2)
    ]
    results = await asyncio.gather(*takes, return_exceptions=True)
    assert sorted(str(type(result).__name__) for result in results) == ["CursorMovedError", "int"]
    assert await held(stream, "s.3") == [b"copied"]
    await stream.close()
    workshop.close()


async def test_what_comes_meanwhile_waits_its_turn_and_counts_as_backlog(
    tmp_path: Path, reads: FileReads
) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, allow_rollup_hdrs=True)
    reading, go_on = threading.Event(), threading.Event()

    def wait() -> None:
        reading.set()
        assert go_on.wait(60)

    reads.entered = wait
    stream.publishing.offer([(b"s.1", b"a", SUB, b"rollup")])
    stream.publishing.offer([(b"s.2", b"b", b"", b"plain")])
    promise = stream.publishing.promise()
    assert stream.publishing.backlog_bytes > 0
    # Readers learn what is stored, without waiting for messages that are held back.
    assert (await stream.reading.state()).last_seq == 60
    assert not promise.done()
    reads.entered = lambda: None
    go_on.set()
    await promise
    assert {
        reply: answer["seq"] for reply, answer in workshop.answers.take().items() if reply in (b"a", b"b")
    } == {
        b"a": 61,
        b"b": 62,
    }
    await stream.publishing.caught_up()
    assert stream.publishing.backlog_bytes == 0
    await stream.close()
    workshop.close()


async def test_closing_stores_what_was_held_back(tmp_path: Path) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, allow_rollup_hdrs=True)
    stream.publishing.offer([(b"s.1", b"a", SUB, b"rollup")])
    await stream.close()
    async with workshop.stream(allow_rollup_hdrs=True) as again:
        assert await held(again, "s.1") == [b"rollup"]
    workshop.close()


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("limit", [-1, 100])
async def test_subjects_hold_what_they_should_whatever_comes(
    tmp_path: Path, reads: FileReads, number: int, limit: int
) -> None:
    draw, workshop = random.Random(choose_seed() + number), Workshop(tmp_path)
    config = {"allow_rollup_hdrs": True, "max_msgs_per_subject": limit}
    stream = await workshop.open(config_of(**config))
    model: dict[bytes, list[bytes]] = {}
    for step in range(60):
        items = []
        for item in range(draw.randrange(1, 60)):
            subject, data = b"s.%d" % draw.randrange(4), b"%d.%d" % (step, item)
            rolls = draw.random() < 0.02
            items.append((subject, data, SUB) if rolls else (subject, data))
            kept = [] if rolls else model.get(subject, [])
            model[subject] = [*kept, data][-limit if limit > 0 else 0 :]
        await publish(stream, *items)
        if draw.random() < 0.3:
            await stream.folder.fold()
        if draw.random() < 0.1:
            await stream.close()
            stream = await workshop.open(config_of(**config))
    assert reads.on_loop == 0
    assert {subject: await held(stream, subject.decode()) for subject in model} == model
    assert (await stream.reading.state()).messages == sum(map(len, model.values()))
    await stream.close()
    workshop.close()


async def test_what_is_refused_after_it_was_held_back_is_never_promised(
    tmp_path: Path, reads: FileReads, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A waiter gets the result of its own publishes, however many later ones are still held back."""
    monkeypatch.setattr(committer, "RETRY_FIRST_S", 0.001)
    workshop = Workshop(tmp_path)
    stream = await filled(workshop, max_msgs_per_subject=100, allow_rollup_hdrs=True)
    locate, may_locate = stream.publishing._older._find, [asyncio.Event(), asyncio.Event()]
    waits = iter(may_locate)

    async def slowly(wanted: Any) -> None:
        await next(waits).wait()
        await locate(wanted)

    monkeypatch.setattr(stream.publishing._older, "_find", slowly)
    stream.publishing.offer([(b"s.1", b"", SUB, b"refused")])
    promised, settled = stream.publishing.promise(), asyncio.create_task(stream.publishing.settled())
    stream.publishing.offer([(b"s.2", b"", SUB, b"stored")])
    later = stream.publishing.promise()
    generation = stream.reading.generation
    append, refusals = stream._store.log.append, [DiskError(tmp_path, "write", 28)]

    def refuse_once(encoded: Any) -> Any:
        if refusals:
            raise refusals.pop()
        return append(encoded)

    monkeypatch.setattr(stream._store.log, "append", refuse_once)
    await asyncio.sleep(0)
    may_locate[0].set()
    # The refusal is raised on a thread, so the stream may still seem to store for a moment.
    await until(lambda: stream.reading.generation > generation and stream.publishing.is_storing)
    may_locate[1].set()
    await later
    with pytest.raises(ApiError):
        await promised
    with pytest.raises(ApiError):
        await settled
    assert await held(stream, "s.1") == [b"0", b"1", b"2"]
    assert await held(stream, "s.2") == [b"stored"]
    await stream.close()
    workshop.close()


@pytest.mark.parametrize("pattern", [None, "s.3", "s.*"])
async def test_a_demand_on_a_subject_that_lost_its_newest_message_reads_on_a_thread(
    tmp_path: Path, reads: FileReads, pattern: str | None
) -> None:
    workshop = Workshop(tmp_path)
    stream = await filled(workshop)
    for seq in range(41, 61):
        await stream.retention.remove(seq)
    workshop.services.cache._runs.clear()
    reads.on_loop = reads.on_threads = 0
    last = 40 if pattern == "s.*" else 24
    demand = {"Nats_Expected_Last_Subject_Sequence": str(last)}
    if pattern:
        demand["Nats_Expected_Last_Subject_Sequence_Subject"] = pattern
    await publish(stream, (b"s.3", b"new", headers(**demand)), (b"s.4", b"behind it"))
    assert (reads.on_loop, reads.on_threads > 0) == (0, True)
    answers = workshop.answers.take()
    assert [answers[b"r%d" % n].get("seq") for n in range(2)] == [61, 62], answers
    await stream.close()
    workshop.close()


async def test_a_counter_that_lost_its_newest_message_finds_the_one_before_on_a_thread(
    tmp_path: Path, reads: FileReads
) -> None:
    workshop = Workshop(tmp_path)
    stream = await workshop.open(config_of(allow_msg_counter=True))
    for _ in range(3):
        await publish(stream, (b"c", b"", headers(Nats_Incr="1")), (b"d", b"", headers(Nats_Incr="1")))
        await stream.folder.fold()
        workshop.answers.take()
    await stream.retention.remove(5)
    workshop.services.cache._runs.clear()
    reads.on_loop = reads.on_threads = 0
    await publish(stream, (b"c", b"", headers(Nats_Incr="1")))
    assert (reads.on_loop, reads.on_threads > 0) == (0, True)
    assert workshop.answers.take()[b"r0"]["val"] == "3"
    await stream.close()
    workshop.close()


@pytest.fixture
def bucket(
    tmp_path: Path, seaweed_server: SeaweedServer, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BucketWorkshop]:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)
    workshop = BucketWorkshop(tmp_path, seaweed_server)
    yield workshop
    workshop.objects.heal()
    workshop.close()


async def test_a_rollup_of_messages_in_a_bucket_removes_them_in_the_same_change(
    bucket: BucketWorkshop,
) -> None:
    stream = await filled(bucket, allow_rollup_hdrs=True)
    bucket.forget()
    await publish(stream, (b"s.3", b"new", SUB), (b"s.4", b"more"))
    assert [answer["seq"] for answer in bucket.answers.take().values()] == [61, 62]
    assert await held(stream, "s.3") == [b"new"]
    assert await held(stream, "s.4") == [b"0", b"1", b"2", b"more"]
    await stream.close()


@pytest.mark.parametrize("fault", ["away", "hung"])
async def test_a_rollup_is_refused_and_changes_nothing_while_the_bucket_cannot_be_read(
    bucket: BucketWorkshop, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(older_messages, "MOST_HELD_S", 0.5)
    stream = await filled(bucket, allow_rollup_hdrs=True)
    bucket.forget()
    if fault == "away":
        bucket.refuse()
    else:
        bucket.hang()
    await publish(stream, (b"s.3", b"new", SUB), (b"s.4", b"more"))
    answers = bucket.answers.take()
    assert "could not be read from its bucket" in answers[b"r0"]["error"]["description"]
    assert answers[b"r1"]["seq"] == 61
    assert (await stream.reading.state()).messages == 61
    bucket.objects.heal()

    async def rolled_up() -> bool:
        await publish(stream, (b"s.3", b"new", SUB))
        return "error" not in bucket.answers.take()[b"r0"]

    await until(rolled_up, "the bucket is read again")
    assert await held(stream, "s.3") == [b"new"]
    await stream.close()


async def test_a_counter_in_a_bucket_continues_after_a_restart(bucket: BucketWorkshop) -> None:
    config = config_of(allow_msg_counter=True, allow_direct=True)
    plus_two = headers(Nats_Incr="2")
    stream = await bucket.open(config)
    await publish(stream, (b"hits", b"", plus_two), (b"misses", b"", plus_two))
    await stream.folder.fold()
    await stream.close()
    bucket.answers.take()
    bucket.forget()
    stream = await bucket.open(config)
    await publish(stream, (b"hits", b"", plus_two), (b"misses", b"", plus_two))
    assert [answer["val"] for answer in bucket.answers.take().values()] == ["4", "4"]
    bucket.forget()
    bucket.hang()
    await publish(stream, (b"hits", b"", plus_two))
    assert bucket.answers.take()[b"r0"]["val"] == "6"
    bucket.objects.heal()
    await stream.close()


async def test_increments_of_totals_in_files_read_them_on_a_thread(tmp_path: Path, reads: FileReads) -> None:
    workshop = Workshop(tmp_path)
    config = config_of(allow_msg_counter=True, allow_atomic=True)
    stream = await workshop.open(config)
    one = headers(Nats_Incr="1")
    for _ in range(3):
        await publish(stream, *[(b"c.%d" % n, b"", one) for n in range(8)])
        await stream.folder.fold()
        workshop.answers.take()
    await stream.close()
    stream = await workshop.open(config)
    workshop.services.cache._runs.clear()
    reads.on_loop = reads.on_threads = 0
    await publish(stream, *[(b"c.%d" % n, b"", one) for n in (7, 0, 3, 3)], (b"c.new", b"", one))
    assert (reads.on_loop, reads.on_threads > 0) == (0, True)
    answers = workshop.answers.take()
    assert [answers[b"r%d" % n].get("val") for n in range(5)] == ["4", "4", "4", "5", "1"], answers
    await stream.close()
    workshop.close()


async def test_copied_increments_read_totals_in_files_on_a_thread(tmp_path: Path, reads: FileReads) -> None:
    workshop = Workshop(tmp_path)
    config = config_of(allow_msg_counter=True)
    stream = await workshop.open(config)
    await publish(stream, (b"c", b"", headers(Nats_Incr="5")))
    await stream.folder.fold()
    await stream.close()
    stream = await workshop.open(config)
    workshop.services.cache._runs.clear()
    reads.on_loop = reads.on_threads = 0
    block = headers(Nats_Incr="2", Nats_Stream_Source="ORIGIN 1 > > c")
    copied = columns_of([Message(1, 1, b"c", block, b'{"val":"2"}')])
    await stream.replica.take("ORIGIN > >", b"", copied, lambda seq: b"cursor", 1, mirrored=False)
    assert (reads.on_loop, reads.on_threads > 0) == (0, True)
    assert (await everything(stream))[-1].data == b'{"val":"7"}'
    await stream.close()
    workshop.close()
