"""Stored messages are counted once for each set of filters, not for each consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

import pytest

from headwater.delivery.tallies import AT_ONCE, REMEMBERED, SubjectTally, Tallies


def test_a_tally_without_filters_takes_everything() -> None:
    for filters in ((), (">",), ("a", ">")):
        assert SubjectTally(filters).takes(b"any.thing")
        assert SubjectTally(filters).sum({b"a": 2, b"b": 3}) == 5


def test_a_tally_takes_what_any_of_its_filters_takes() -> None:
    tally = SubjectTally(("a.*", "b"))
    assert tally.takes(b"a.x")
    assert tally.takes(b"b")
    assert not tally.takes(b"a.x.y")
    assert tally.sum({b"a.x": 2, b"b": 1, b"c": 7}) == 3


def test_consumers_with_the_same_filters_share_a_tally() -> None:
    tallies = Tallies()
    first, second = tallies.join(("a",)), tallies.join(("a",))
    assert first is second
    assert tallies.join(("b",)) is not first


def test_stored_messages_are_counted_for_each_tally_that_takes_them() -> None:
    tallies = Tallies()
    every, some, none = tallies.join(()), tallies.join(("a.>",)), tallies.join(("z",))
    touched = tallies.stored([b"a.b", b"c", b"a.b", b"a.c"])
    assert (every.stored, some.stored, none.stored) == (4, 3, 0)
    assert touched == {every, some}


def test_a_subject_seen_before_counts_for_a_tally_that_comes_later() -> None:
    tallies = Tallies()
    tallies.join(("a",))
    tallies.stored([b"b"])
    late = tallies.join(("b",))
    assert tallies.stored([b"b"]) == {late}
    assert late.stored == 1


def test_a_tally_goes_with_its_last_consumer() -> None:
    tallies = Tallies()
    tally = tallies.join(("a",))
    tallies.join(("a",))
    tallies.leave(tally)
    assert tallies.of(b"a") == (tally,)
    tallies.leave(tally)
    assert tallies.of(b"a") == ()
    assert tallies.stored([b"a"]) == set()


def test_no_more_than_so_many_subjects_are_remembered() -> None:
    tallies = Tallies()
    tallies.join(("x.>",))
    tallies.stored(b"x.%d" % n for n in range(REMEMBERED + 10))
    assert len(tallies._by_subject) <= REMEMBERED


def test_a_consumer_that_joins_or_leaves_is_seen_at_once_whatever_was_remembered() -> None:
    tallies = Tallies()
    everything, literal = tallies.join(()), tallies.join(("a.b",))
    assert set(tallies.of(b"a.b")) == {everything, literal}
    assert set(tallies.of(b"a.c")) == {everything}
    other, wild = tallies.join(("a.c", "a.d")), tallies.join(("a.*", "x.>"))
    assert set(tallies.of(b"a.b")) == {everything, literal, wild}
    assert set(tallies.of(b"a.c")) == {everything, other, wild}
    tallies.leave(literal)
    tallies.leave(everything)
    assert set(tallies.of(b"a.b")) == {wild}
    assert set(tallies.of(b"a.c")) == {other, wild}
    tallies.leave(wild)
    assert tallies.of_any([b"a.b", b"a.c", b"a.d"]) == {other}


def test_a_tally_of_many_filters_takes_what_each_of_them_takes() -> None:
    tally = SubjectTally((*(f"a.{n}" for n in range(20)), "b.*.c"))
    assert tally.takes(b"a.7")
    assert tally.takes(b"b.x.c")
    assert not tally.takes(b"a.20")
    assert tally.sum({b"a.1": 2, b"a.99": 5, b"b.1.c": 3}) == 5


def test_a_subject_is_found_among_many_filters_without_trying_each(monkeypatch: pytest.MonkeyPatch) -> None:
    tallies = Tallies()
    for number in range(2_000):
        tallies.join((f"orders.{number}.*",))
    tried: list[bytes] = []
    monkeypatch.setattr(SubjectTally, "takes", lambda self, subject: tried.append(subject))
    assert [tally.filters for tally in tallies.of(b"orders.7.new")] == [("orders.7.*",)]
    assert tried == []


MANY_FILTERS = tuple(f"s.{number}.*" for number in range(5000))


async def turns_during(work: Coroutine[None, None, None]) -> int:
    """Return how many turns of the event loop another task gets while work runs."""
    turns = 0
    task = asyncio.create_task(work)
    while not task.done():
        turns += 1
        await asyncio.sleep(0)
    await task
    return turns


async def test_very_many_filters_join_and_leave_in_slices() -> None:
    tallies = Tallies()
    other = tallies.join(("s.7.*",))
    assert await turns_during(tallies.prepare(MANY_FILTERS)) >= len(MANY_FILTERS) / AT_ONCE
    tally = tallies.join(MANY_FILTERS)
    assert set(tallies.of(b"s.7.x")) == {tally, other}
    assert set(tallies.of(b"s.4999.x")) == {tally}
    tallies.leave(tally)
    assert set(tallies.of(b"s.7.x")) == {other}
    assert tallies.of(b"s.4999.x") == ()
    assert await turns_during(tallies.tidy()) >= len(MANY_FILTERS) / AT_ONCE
    assert tallies._filtered.match(b"s.4999.x") == set()
    assert tallies._filtered.match(b"s.7.x") == {other}


async def test_a_tally_counts_nothing_before_it_is_joined_and_everything_after() -> None:
    tallies = Tallies()
    preparing = asyncio.create_task(tallies.prepare(MANY_FILTERS))
    counted = 0
    while not preparing.done():
        counted += len(tallies.stored([b"s.1.x", b"s.4999.x"]))
        await asyncio.sleep(0)
    tally = tallies.join(MANY_FILTERS)
    assert (counted, tally.stored) == (0, 0)
    assert tallies.stored([b"s.1.x", b"s.4999.x"]) == {tally}
    assert tally.stored == 2


async def test_filters_that_return_while_they_are_removed_count() -> None:
    tallies = Tallies()
    await tallies.prepare(MANY_FILTERS)
    tallies.leave(tallies.join(MANY_FILTERS))
    tidying = asyncio.create_task(tallies.tidy())
    await asyncio.sleep(0)
    await tallies.prepare(MANY_FILTERS)
    tally = tallies.join(MANY_FILTERS)
    await tidying
    assert tallies.stored([b"s.1.x", b"s.4999.x"]) == {tally}


async def test_filters_whose_preparation_is_cancelled_are_removed_later() -> None:
    tallies = Tallies()
    preparing = asyncio.create_task(tallies.prepare(MANY_FILTERS))
    while not tallies._filtered:
        await asyncio.sleep(0)
    preparing.cancel()
    await asyncio.wait({preparing})
    await tallies.tidy()
    assert not tallies._filtered


def test_large_sets_of_filters_can_be_built_before_a_consumer_joins() -> None:
    many = tuple(f"s.{number}.*" for number in range(AT_ONCE + 1))
    tallies = Tallies.of_many([many, ("few.*",), many])
    assert tallies.of(b"s.1.x") == ()
    tally = tallies.join(many)
    assert tallies.of(b"s.1.x") == (tally,)
    assert tallies.join(many) is tally
    tallies.leave(tally)
    tallies.leave(tally)
    assert tallies.of(b"s.1.x") == ()
