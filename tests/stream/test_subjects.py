"""The index knows every subject, its count and its newest sequence, and says where it is not sure."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from headwater.model.subject import Filter
from headwater.stream import selection
from headwater.stream.selection import SLICE
from headwater.stream.subjects import SubjectIndex, in_order
from stream.model import matches

SUBJECTS = [b"a", b"a.1", b"a.2", b"b.1", "ü.1".encode()]
PATTERNS = [">", "a", "a.*", "a.>", "*.1", "c", "b.1", "ü.1", "*"]

steps = st.lists(
    st.one_of(
        st.lists(st.sampled_from(SUBJECTS), min_size=1, max_size=6),
        st.sets(st.integers(1, 40), min_size=1, max_size=12),
    ),
    max_size=10,
)


@pytest.mark.parametrize("history", [False, True])
@settings(max_examples=80, deadline=None)
@given(steps=steps)
def test_counts_and_newest_sequences_are_those_of_a_plain_dict(
    history: bool, steps: list[list[bytes] | set[int]]
) -> None:
    index = SubjectIndex(history=history)
    held: dict[int, bytes] = {}
    last_seq = 0
    for step in steps:
        if isinstance(step, list):
            seqs = range(last_seq + 1, last_seq + 1 + len(step))
            index.add_run(step, seqs, [10 + seq for seq in seqs])
            held.update(zip(seqs, step, strict=True))
            last_seq = seqs[-1]
        else:
            gone = {seq: held.pop(seq) for seq in step & held.keys()}
            for subject, count in Counter(gone.values()).items():
                left = index.count[subject] - count
                if left:
                    index.subtract(subject, left, BitMap64(gone))
                else:
                    index.forget(subject)
        check(index, held)
    check(SubjectIndex.restore(msgspec.msgpack.decode(msgspec.msgpack.encode(index.dump()))), held)


def check(index: SubjectIndex, held: dict[int, bytes]) -> None:
    """Compare an index with the subject of each sequence."""
    newest = {subject: seq for seq, subject in sorted(held.items())}
    assert index.count == Counter(held.values())
    assert len(index) == len(newest)
    assert all((subject in index) == (subject in newest) for subject in SUBJECTS)
    for subject, seq in newest.items():
        if subject in index.stale:
            assert index.last[subject] >= seq, "only an upper bound, but one"
        else:
            assert index.last[subject] == seq
    assert index.last.keys() == newest.keys()
    for pattern in PATTERNS:
        wanted = {subject for subject in newest if matches(pattern, subject)}
        assert set(index.matching(pattern)) == wanted
    if index.history is not None:
        assert not index.stale
        assert index.history == {
            subject: tuple((seq, 10 + seq) for seq in sorted(held) if held[seq] == subject)
            for subject in newest
        }


def test_a_subject_that_lost_its_newest_message_is_stale_until_it_is_looked_up() -> None:
    index = SubjectIndex()
    index.add_run([b"a", b"a", b"b"], [1, 2, 3])
    index.subtract(b"a", 1, BitMap64([2]))
    assert (index.stale, index.last[b"a"]) == ({b"a"}, 2)
    index.settle(b"a", 1)
    assert (index.stale, index.last[b"a"]) == (set(), 1)


def test_a_new_message_makes_a_stale_subject_sure_again() -> None:
    index = SubjectIndex()
    index.add_run([b"a", b"a"], [1, 2])
    index.subtract(b"a", 1, BitMap64([2]))
    index.add_run([b"a"], [3])
    assert (index.stale, index.last) == (set(), {b"a": 3})


def test_losing_an_older_message_leaves_the_newest_known() -> None:
    index = SubjectIndex()
    index.add_run([b"a", b"a"], [1, 2])
    index.subtract(b"a", 1, BitMap64([1]))
    assert (index.stale, index.last) == (set(), {b"a": 2})


@pytest.mark.parametrize("history", [False, True])
def test_a_cleared_index_knows_nothing(history: bool) -> None:
    index = SubjectIndex(history=history)
    index.add_run([b"a", b"a"], [1, 2], [5, 5])
    index.oldest[b"a"] = 1
    index.clear()
    assert (len(index), index.last, index.oldest, list(index.matching(">"))) == (0, {}, {}, [])
    assert index.history == ({} if history else None)
    index.add_run([b"a"], [3], [7])
    assert index.last == {b"a": 3}


def test_a_dump_does_not_follow_later_changes() -> None:
    index = SubjectIndex(history=True)
    index.add_run([b"a"], [1], [5])
    dumped = index.dump()
    index.add_run([b"a", b"b"], [2, 3], [5, 5])
    assert dumped == {"count": {b"a": 1}, "last": {b"a": 1}, "stale": [], "history": {b"a": ((1, 5),)}}


@pytest.mark.parametrize("history", [False, True])
def test_a_dump_stays_the_same_while_the_index_changes(history: bool) -> None:
    index = SubjectIndex(history=history)
    index.add_run([b"a", b"b", b"a"], [1, 2, 3], [10, 11, 12])
    dumped = index.dump()
    before = msgspec.msgpack.encode(dumped)
    index.add_run([b"a", b"c"], [4, 5], [13, 14])
    index.subtract(b"a", 2, BitMap64([1]))
    index.forget(b"b")
    assert msgspec.msgpack.encode(dumped) == before, "it is encoded later, on a thread"
    restored = SubjectIndex.restore(msgspec.msgpack.decode(before, strict=False))
    if history:
        assert restored.history == {b"a": ((1, 10), (3, 12)), b"b": ((2, 11),)}


async def turns_while(work: Any) -> tuple[Any, int]:
    """Return the result of work, and how often other tasks ran during it."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.create_task(others())
    try:
        return await work, turns
    finally:
        beside.cancel()


def large_index(count: int = 4 * SLICE) -> SubjectIndex:
    index = SubjectIndex(history=True)
    names = [b"s.%d.%d" % (number % 7, number) for number in range(count)]
    index.add_run(names, range(1, count + 1), [10] * count)
    return index


async def test_wildcards_over_many_subjects_let_others_have_their_turn() -> None:
    index = large_index()
    found, turns = await turns_while(index.matched("s.3.*"))
    assert found == {subject for subject in index.count if subject.startswith(b"s.3.")}
    assert turns >= 4
    (newest, stale), turns = await turns_while(index.newest("s.>"))
    assert (newest, stale) == (len(index), [])
    assert turns >= 8
    assert await index.matched("s.3.3") == {b"s.3.3"}
    assert await index.matched("nothing.*") == set()


async def test_subjects_that_go_while_they_are_matched_do_no_harm() -> None:
    index = large_index()
    matching = asyncio.create_task(index.newest("s.*.*"))
    await asyncio.sleep(0)
    for subject in list(index.count)[: len(index) // 2]:
        index.forget(subject)
    index.add_run([b"s.new.1"], [1_000_000], [1])
    newest, _ = await matching
    assert newest in (4 * SLICE, 1_000_000)


async def test_many_subjects_are_put_in_order_in_slices() -> None:
    index = large_index()
    names = list(index.count)
    found, turns = await turns_while(in_order(names, 2 * SLICE))
    assert found == sorted(names)[: 2 * SLICE]
    assert turns >= 4
    assert await in_order(names, len(names) + 5) == sorted(names)
    assert await in_order([], 5) == []


def test_a_dump_is_not_changed_by_what_comes_after_it() -> None:
    index = large_index(100)
    dumped = index.dump()
    index.add_run([b"s.0.0"], [101], [7])
    index.subtract(b"s.0.0", 1, BitMap64([1]))
    assert dumped["history"][b"s.0.0"] == ((1, 10),)
    assert SubjectIndex.restore(dumped).history == large_index(100).history


async def test_what_was_prepared_is_matched_with_all_that_came_and_went_since() -> None:
    index = large_index(100)
    await index.prepare("s.3.*")
    before = set(index.matching("s.3.*"))
    index.forget(b"s.3.3")
    index.add_run([b"s.3.new", b"s.4.new", b"s.3.10"], [101, 102, 103], [1, 1, 1])
    assert set(index.matching("s.3.*")) == before - {b"s.3.3"} | {b"s.3.new"}
    index.add_run([b"s.3.3"], [104], [1])
    assert set(index.matching("s.3.*")) == before | {b"s.3.new"}
    assert set(index.matching("s.4.*")) > {b"s.4.new"}, "another pattern is looked for"
    index.unprepare()
    assert set(index.matching("s.3.*")) == before | {b"s.3.new"}


async def test_a_subject_that_comes_while_a_pattern_is_prepared_is_matched() -> None:
    index = large_index()
    preparing = asyncio.create_task(index.prepare("s.3.*"))
    await asyncio.sleep(0)
    index.add_run([b"s.3.new"], [1_000_000], [1])
    await preparing
    assert b"s.3.new" in set(index.matching("s.3.*"))


async def test_the_newest_of_what_was_prepared_is_known_until_something_is_removed() -> None:
    index = large_index(100)
    assert index.prepared_newest("s.3.*") is None
    await index.prepare("s.3.*")
    newest = max(index.last[subject] for subject in index.matching("s.3.*"))
    assert index.prepared_newest("s.3.*") == newest
    index.add_run([b"s.4.new", b"s.3.3"], [101, 102], [1, 1])
    assert index.prepared_newest("s.3.*") == 102
    index.add_run([b"s.3.new"], [103], [1])
    assert b"s.3.new" in set(index.matching("s.3.*"))
    assert index.prepared_newest("s.3.*") == 103
    assert index.prepared_newest("s.*.*") is None
    index.forget(b"s.3.new")
    assert index.prepared_newest("s.3.*") is None, "what is the newest now must be looked for"


def newest_of(index: SubjectIndex, pattern: str) -> int:
    """Return the newest sequence on matching subjects, looked for in all of them."""
    return max(
        (index.last[subject] for subject in list(index.count) if Filter(pattern).matches(subject)), default=0
    )


async def test_the_newest_is_known_although_it_went_while_a_pattern_was_prepared() -> None:
    index = large_index()
    preparing = asyncio.create_task(index.prepare("s.3.*"))
    for _ in range(3):
        await asyncio.sleep(0)
    gone = newest_of(index, "s.3.*")
    index.forget(next(subject for subject, seq in index.last.items() if seq == gone))
    await preparing
    assert index.prepared_newest("s.3.*") == newest_of(index, "s.3.*") < gone


async def test_a_removal_of_older_messages_leaves_the_newest_known() -> None:
    index = large_index(100)
    await index.prepare("s.3.*")
    newest = newest_of(index, "s.3.*")
    index.forget(b"s.3.3")
    index.forget(b"s.4.4")
    assert index.prepared_newest("s.3.*") == newest


async def test_a_message_that_takes_the_newest_out_is_the_newest_at_once() -> None:
    """This is the case of a key-value bucket. The index does not search for the newest message again."""
    index = large_index(100)
    await index.prepare("s.3.*")
    for seq in range(101, 110):
        index.add_run([b"s.3.3"], [seq], [1])
        index.subtract(b"s.3.3", 1, BitMap64([seq - 1, 4]))
        assert index.prepared_newest("s.3.*") == seq


async def test_a_fresh_subject_that_lost_its_newest_message_is_settled_first() -> None:
    index = SubjectIndex()
    index.add_run([b"s.1", b"s.2"], [1, 2])
    await index.prepare("s.*")
    index.add_run([b"s.3", b"s.3"], [3, 4])
    index.subtract(b"s.3", 1, BitMap64([4]))
    assert index.prepared_newest("s.*") is None
    asked: list[bytes] = []

    async def settle(subject: bytes) -> int:
        asked.append(subject)
        index.settle(subject, 3)
        return 3

    await index.prepare("s.*", settle)
    assert index.prepared_newest("s.*") == 3
    assert asked == [b"s.3"]


async def test_a_pattern_that_is_prepared_while_everything_goes_misses_nothing() -> None:
    index = large_index()
    preparing = asyncio.create_task(index.prepare("s.3.*"))
    for _ in range(3):
        await asyncio.sleep(0)
    index.clear()
    index.add_run([b"s.3.3"], [1_000_000], [1])
    await preparing
    index.add_run([b"s.3.4"], [1_000_001], [1])
    assert index.prepared_newest("s.3.*") == 1_000_001
    assert set(index.matching("s.3.*")) == {b"s.3.3", b"s.3.4"}


@pytest.mark.parametrize("seed", range(20))
async def test_a_count_in_slices_is_exact_when_it_returns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between slices, messages are stored and removed, on subjects that were counted and on others."""
    monkeypatch.setattr(selection, "SLICE", 3)
    chance, index, seq = random.Random(seed), SubjectIndex(), 0
    names = [b"s.%d" % number for number in range(20)]

    def change() -> None:
        nonlocal seq
        for _ in range(chance.randrange(4)):
            name, seq = chance.choice(names), seq + 1
            held = index.count.get(name, 0)
            kind = chance.random()
            if kind < 0.5:
                index.add_run([name, name], [seq, seq + 1])
                seq += 1
            elif kind < 0.6:
                index.add_counts({name: (3, seq)})
            elif held > 1:
                index.subtract(name, held - 1, BitMap64([1]))
            elif held:
                index.forget(name)
        if chance.random() < 0.05:
            index.clear()

    for _ in range(20):
        change()
    wanted = set(names[:14])
    task = asyncio.ensure_future(index.count_on(wanted))
    now = 0
    while not task.done():
        change()
        now = sum(index.count.get(name, 0) for name in wanted)
        await asyncio.sleep(0)
    assert task.result() == now
    assert not index._watches
