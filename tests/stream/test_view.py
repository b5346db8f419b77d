"""Head and body are one run to a reader, also while a fold moves messages from one to the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headwater.disk import RealDisk
from headwater.errors import CorruptionError, DiskError
from headwater.log.batch import Batch, encode
from headwater.log.log import Log
from headwater.log.segment import Position
from headwater.model.message import Message
from headwater.model.run import Run
from headwater.stream.head import Head, HeadEntry
from headwater.stream.view import RunCache, View
from headwater.table.table import Table
from stream.runs import message as plain
from stream.runs import run_of
from stream.streams import Workshop, publish
from table.samples import append, message, messages_of


class Whole:
    """A log, a table, and the view over both."""

    def __init__(self, directory: Path, cache_bytes: int = 1 << 20) -> None:
        self.directory = directory
        disk = RealDisk(sync=False)
        self.log = Log.open(directory / "log", disk)
        self.table = Table.open(directory / "table", disk)
        self.head = Head(self.log)
        self.cache = RunCache(cache_bytes)
        self.executor = ThreadPoolExecutor(2)
        self.view = View(self.head, self.table, self.cache, self.executor)

    def hold(self, seqs: range, *, resident: bool = False) -> HeadEntry:
        """Append messages to the log and the head."""
        run = run_of([message(seq) for seq in seqs])
        batch = Batch(seqs[0], run.timestamps, run.subjects, run.headers, run.datas, 1, seqs[-1])
        position = self.log.append([encode(batch)])[0]
        self.log.sync()
        entry = HeadEntry.of(run, position)
        self.head.append(entry, resident=resident)
        return entry

    def fold(self, seqs: range) -> None:
        """Commit messages to the table; the head still has them."""
        append(self.table, seqs)

    def all(self) -> list[Message]:
        """Return every message that the view leads to, run by run from the start."""
        found: list[Message] = []
        while (run := self.view.read_run_at(found[-1].seq + 1 if found else 0)) is not None:
            found += [m for m in messages_of(run) if not found or m.seq > found[-1].seq]
        return found

    def close(self) -> None:
        self.executor.shutdown()
        self.log.close()


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Whole]:
    whole = Whole(tmp_path)
    yield whole
    whole.close()


def test_body_and_head_follow_each_other(whole: Whole) -> None:
    whole.fold(range(1, 30))
    whole.fold(range(30, 41))
    whole.hold(range(41, 50))
    whole.hold(range(50, 61), resident=True)
    assert whole.all() == [message(seq) for seq in range(1, 61)]
    assert whole.view.read_run_at(61) is None


def test_every_sequence_is_there_before_while_and_after_it_is_folded(whole: Whole) -> None:
    everything = [message(seq) for seq in range(1, 31)]
    for start in (1, 11, 21):
        whole.hold(range(start, start + 10))
    assert whole.all() == everything
    whole.fold(range(1, 21))
    assert whole.all() == everything, "both have them"
    whole.head.release_through(20)
    assert whole.all() == everything, "only the table has them"


def test_gaps_lead_to_the_next_message(whole: Whole) -> None:
    whole.fold(range(10, 12))
    whole.hold(range(20, 22))
    first = {seq: whole.view.read_run_at(seq) for seq in (0, 10, 12, 19, 21)}
    assert {seq: int(run.seqs[0]) for seq, run in first.items() if run} == {
        0: 10,
        10: 10,
        12: 20,
        19: 20,
        21: 20,
    }


async def test_what_is_in_memory_is_served_without_a_thread(whole: Whole) -> None:
    whole.hold(range(1, 5))
    resident = whole.hold(range(5, 9), resident=True)
    whole.executor.shutdown()
    assert await whole.view.run_at(6) is resident.run
    assert whole.view.resident_run_at(6) is resident.run
    assert whole.view.resident_run_at(2) is None
    with pytest.raises(RuntimeError):
        await whole.view.run_at(2)


async def test_what_was_read_before_is_served_without_a_thread(whole: Whole) -> None:
    whole.fold(range(1, 5))
    whole.hold(range(5, 9))
    assert (whole.view.resident_run_at(2), whole.view.resident_run_at(6)) == (None, None)
    read = await whole.view.run_at(2), await whole.view.run_at(6)
    whole.executor.shutdown()
    assert (whole.view.resident_run_at(3), whole.view.resident_run_at(7)) == read
    whole.head.release_through(8)
    assert whole.view.resident_run_at(7) is None, "neither does the table have it"


async def test_reading_does_not_delay_the_loop(whole: Whole) -> None:
    whole.fold(range(1, 5))
    runs = await asyncio.gather(*(whole.view.run_at(seq) for seq in range(1, 5)))
    assert [messages_of(run)[0].seq for run in runs if run] == [1] * 4
    assert await whole.view.run_at(9) is None


def test_a_batch_trimmed_between_the_look_and_the_read_is_found_in_the_table(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.hold(range(1, 6))
    read = Log.read
    trimmed: list[Position] = []

    def trim_first(log: Log, position: Position) -> Run:
        if not trimmed:
            trimmed.append(position)
            whole.fold(range(1, 6))
            whole.head.release_through(5)
            log.trim(log.rotate())
        return read(log, position)

    monkeypatch.setattr(Log, "read", trim_first)
    run = whole.view.read_run_at(3)
    assert run is not None
    assert messages_of(run) == [message(seq) for seq in range(1, 6)]
    assert trimmed


def test_a_disk_that_keeps_refusing_is_not_asked_for_ever(
    whole: Whole, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole.hold(range(1, 3))
    asked: list[Position] = []

    def refuse(log: Log, position: Position) -> Run:
        asked.append(position)
        raise DiskError(whole.directory, "read", 5)

    monkeypatch.setattr(Log, "read", refuse)
    with pytest.raises(DiskError):
        whole.view.read_run_at(1)
    assert 1 < len(asked) < 20


def test_damage_is_reported_and_not_read_again(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.hold(range(1, 3))
    asked: list[Position] = []

    def damaged(log: Log, position: Position) -> Run:
        asked.append(position)
        raise CorruptionError(whole.directory, 0, "the checksum of a batch does not match")

    monkeypatch.setattr(Log, "read", damaged)
    with pytest.raises(CorruptionError):
        whole.view.read_run_at(1)
    assert len(asked) == 1


async def test_a_time_leads_to_the_first_message_since_it_wherever_that_lies(whole: Whole) -> None:
    whole.fold(range(1, 8))
    whole.fold(range(8, 15))
    whole.hold(range(15, 20))
    whole.hold(range(20, 23), resident=True)
    for seq in range(1, 23):
        ts = message(seq).ts
        assert await whole.view.seq_at(ts) == seq
        assert await whole.view.seq_at(ts - 999_999) == seq
        assert await whole.view.seq_at(ts + 1) == (seq + 1 if seq < 22 else None)
    assert await whole.view.seq_at(0) == 1


def test_how_far_a_damaged_piece_reaches_is_known_without_reading_it(whole: Whole) -> None:
    whole.fold(range(1, 8))
    whole.hold(range(10, 15))
    assert [whole.view.reach(seq) for seq in (1, 7, 8, 12, 15)] == [7, 7, 14, 14, 15]


def test_what_was_read_once_is_not_read_again(whole: Whole, monkeypatch: pytest.MonkeyPatch) -> None:
    whole.fold(range(1, 8))
    whole.hold(range(8, 12))
    before = whole.all()
    monkeypatch.setattr(Log, "read", None)
    monkeypatch.setattr(Table, "read_group", None)
    assert whole.all() == before


def test_two_streams_share_a_cache_and_not_their_runs(tmp_path: Path) -> None:
    first, second = Whole(tmp_path / "1"), Whole(tmp_path / "2")
    second.view = View(second.head, second.table, first.cache, second.executor)
    first.hold(range(1, 3))
    second.hold(range(1, 5))
    assert (len(first.all()), len(second.all())) == (2, 4)
    for whole in (first, second):
        whole.close()


def test_a_cache_evicts_what_was_least_recently_used() -> None:
    runs = [run_of([plain(seq, data=b"x" * 100)]) for seq in range(1, 5)]
    cache = RunCache(3 * runs[0].nbytes)
    for number in range(3):
        cache.put((number,), runs[number])
    assert cache.get((0,)) is runs[0]
    cache.put((3,), runs[3])
    assert [cache.get((number,)) is not None for number in range(4)] == [True, False, True, True]
    assert cache.nbytes == 3 * runs[0].nbytes


def test_a_run_larger_than_the_cache_takes_all_of_it_and_no_more() -> None:
    small, large = run_of([plain(1)]), run_of([plain(2, data=b"x" * 1000)])
    cache = RunCache(small.nbytes)
    cache.put(("small",), small)
    cache.put(("large",), large)
    assert (cache.get(("small",)), cache.get(("large",))) == (None, large)
    assert cache.nbytes == large.nbytes
    cache.put(("large",), large)
    assert cache.nbytes == large.nbytes


async def test_a_run_in_memory_is_returned_without_a_thread(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with workshop.stream() as stream:
        await publish(stream, (b"a", b"1"), (b"a", b"2"))
        await stream.folder.fold()
        view = stream._store.view
        first = await view.run_at(1)

        async def refused(*args: object) -> None:
            raise AssertionError("a thread was asked")

        monkeypatch.setattr(view, "_on_thread", refused)
        assert await view.run_at(2) is first
