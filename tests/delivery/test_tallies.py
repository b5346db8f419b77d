"""Stored messages are counted once for each set of filters, not for each consumer."""

from __future__ import annotations

import pytest

from headwater.delivery.tallies import REMEMBERED, SubjectTally, Tallies


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
