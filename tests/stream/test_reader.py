"""What a stream says of its messages is what a plain look through all of them would say."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.model.message import Message
from headwater.stream import reader as module
from headwater.stream.reader import Reader
from headwater.stream.stream import Stream
from headwater.stream.subjects import SubjectIndex
from stream.model import matches
from stream.streams import SECOND, Workshop, config_of, publish

SUBJECTS = [b"a.1", b"b.1", b"a.2", b"a.1"]
PATTERNS = ["", ">", "a.*", "a.1", "*.1", "b.1", "none"]
REMOVED = [1, 4, 6, 16]


class Read:
    """A stream with messages in the table, in the log and in memory, and the list of those that live."""

    def __init__(self, stream: Stream, live: list[Message]) -> None:
        self.stream = stream
        self.reader = Reader(stream._store)
        self.live = live

    def matching(self, pattern: str, low: int = 0, high: int = 1 << 40) -> list[Message]:
        return [m for m in self.live if low <= m.seq <= high and matches(pattern or ">", m.subject)]


async def filled(workshop: Workshop) -> Read:
    stream = await workshop.open(config_of())
    live = []
    for seq in range(1, 17):
        workshop.clock.advance(SECOND)
        subject, data = SUBJECTS[seq % 4], b"%d" % seq
        await publish(stream, (subject, data))
        live.append(Message(seq, workshop.clock.now_ns(), subject, b"", data))
        if seq in (5, 9):
            await stream.folder.fold()
    for seq in REMOVED:
        assert await stream.retention.remove(seq)
    return Read(stream, [m for m in live if m.seq not in REMOVED])


@pytest.mark.parametrize("pattern", PATTERNS)
async def test_questions_about_a_pattern_are_answered_from_what_lives(
    workshop: Workshop, pattern: str
) -> None:
    read = await filled(workshop)
    matching = read.matching(pattern)
    assert await read.reader.last(pattern) == (matching[-1] if matching else None)
    for seq in range(19):
        earlier, later = read.matching(pattern, 0, seq), read.matching(pattern, seq)
        assert await read.reader.last(pattern, seq) == (earlier[-1] if earlier else None)
        assert await read.reader.next(pattern, seq) == (later[0] if later else None)
        assert await read.reader.pending(seq, (pattern,) if pattern else ()) == len(later)
        newest = sorted({m.subject: m.seq for m in earlier}.values())
        assert await read.reader.last_seqs((pattern or ">",), seq, 10) == newest
    await read.stream.close()


async def test_a_message_is_found_by_its_sequence_wherever_it_lies(workshop: Workshop) -> None:
    read = await filled(workshop)
    by_seq = {m.seq: m for m in read.live}
    for seq in range(19):
        assert await read.reader.message(seq) == by_seq.get(seq)
    await read.stream.close()


async def test_a_time_leads_to_the_first_message_since_it_that_still_lives(workshop: Workshop) -> None:
    read = await filled(workshop)
    for ts in {t for m in read.live for t in (m.ts - 1, m.ts, m.ts + 1)}:
        later = [m.seq for m in read.live if m.ts >= ts]
        assert await read.reader.seq_at(ts) == (later[0] if later else 17)
    await read.stream.close()


async def test_a_scan_hands_over_few_enough_at_a_time_and_all_of_them(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SCAN_MESSAGES", 2)
    read = await filled(workshop)
    parts = [part async for part in read.reader.scan(3, ("a.*", "b.*"), 14)]
    assert max(map(len, parts)) == 2
    assert [m for part in parts for m in part] == [m for m in read.live if 3 <= m.seq <= 14]
    overlapping = [m async for part in read.reader.scan(0, ("a.*", "a.1")) for m in part]
    assert overlapping == read.matching("a.*"), "a message that two patterns match comes once"
    await read.stream.close()


async def test_more_subjects_than_the_limit_are_not_answered(workshop: Workshop) -> None:
    read = await filled(workshop)
    for up_to in (None, 15):
        assert await read.reader.last_seqs((">",), up_to, 2) is None
        assert await read.reader.last_seqs(("a.1", "b.1"), up_to, 2) == [13, 15]
    await read.stream.close()


async def test_a_subject_that_lost_its_newest_message_is_looked_up_once(workshop: Workshop) -> None:
    read = await filled(workshop)
    index = read.stream._store.ledger.subjects
    assert index.stale == {SUBJECTS[0]}, "16 was the newest of a.1"
    assert await read.reader.last_on(b"a.1") == 15
    assert not index.stale
    assert index.last[b"a.1"] == 15
    assert await read.reader.last_on(b"never seen") == 0
    await read.stream.close()


async def test_a_subject_that_cannot_hold_the_newest_message_is_not_looked_up(workshop: Workshop) -> None:
    read = await filled(workshop)
    await read.stream.retention.remove(13)
    index = read.stream._store.ledger.subjects
    assert index.stale == {b"a.1", b"b.1"}
    newest = await read.reader.last("*.1")
    assert newest is not None
    assert (newest.seq, index.stale) == (15, {b"b.1"})
    await read.stream.close()


async def test_a_lookup_is_done_again_when_its_answer_was_removed_meanwhile(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = await filled(workshop)
    store = read.stream._store
    find_last, found = store.find_last, []

    async def on_thread(call: Callable[..., int], *args: object) -> int:
        found.append(call(*args))
        if len(found) == 1:
            store.ledger.remove(read.stream.retention.removal_of([found[0]])[0])
        return found[-1]

    monkeypatch.setattr(store, "on_thread", on_thread)
    assert find_last(b"a.1", 16) == 15
    assert await read.reader.last_on(b"a.1") == 12
    assert found == [15, 12]
    await read.stream.close()


async def test_an_empty_stream_answers_with_nothing(workshop: Workshop) -> None:
    async with workshop.stream() as stream:
        reader = Reader(stream._store)
        assert await reader.message(1) is None
        assert await reader.last(">") is None
        assert await reader.next("", 0) is None
        assert await reader.pending(0, ("a",)) == 0
        assert await reader.seq_at(0) == 1
        assert [part async for part in reader.scan(0)] == []


@pytest.mark.parametrize("subject", [b"s.1", b"s.new"])
async def test_messages_that_come_while_subjects_are_looked_for_are_not_counted(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, subject: bytes
) -> None:
    stream = await workshop.open(config_of(subjects=("s.*",)))
    await publish(stream, (b"s.1", b""), (b"s.2", b""))
    reader, looked = Reader(stream._store), SubjectIndex.matched

    async def slowly(index: SubjectIndex, *patterns: str) -> set[bytes]:
        await publish(stream, (subject, b""))
        found = await looked(index, *patterns)
        await publish(stream, (subject, b""))
        return found

    monkeypatch.setattr(SubjectIndex, "matched", slowly)
    assert await reader.pending(1, ("s.*",)) == 2
    await stream.close()
