"""Deadlines are found by time, and settled messages leave nothing to do."""

from __future__ import annotations

from headwater.delivery.deadlines import Deadlines

MS = 1_000_000


def test_runs_come_by_time() -> None:
    deadlines = Deadlines()
    deadlines.add(300 * MS, 20, 29)
    deadlines.add(100 * MS, 5, 5)
    assert deadlines.next(1) == 100 * MS
    assert deadlines.take(99 * MS, 1) == []
    assert deadlines.take(100 * MS, 1) == [(5, 5)]
    assert deadlines.take(300 * MS, 22) == [(22, 29)]
    assert deadlines.next(1) is None


def test_runs_that_fall_due_together_are_one() -> None:
    deadlines = Deadlines()
    deadlines.add(100 * MS, 10, 19)
    deadlines.add(101 * MS, 20, 29)
    deadlines.add(102 * MS, 3, 3)
    deadlines.add(99 * MS, 40, 40)
    assert deadlines.take(100 * MS, 1) == [(40, 40), (3, 29)]


def test_runs_below_the_lowest_unsettled_message_are_passed_over() -> None:
    deadlines = Deadlines()
    for number in range(100):
        deadlines.add(number * 50 * MS, number, number)
    assert deadlines.next(98) == 98 * 50 * MS
    assert deadlines.take(10**12, 99) == [(99, 99)]


def test_what_was_taken_does_not_swallow_what_comes_later() -> None:
    deadlines = Deadlines()
    deadlines.add(100 * MS, 1, 1)
    deadlines.take(100 * MS, 1)
    deadlines.add(101 * MS, 2, 2)
    assert deadlines.next(1) == 101 * MS
    deadlines.clear()
    deadlines.add(101 * MS, 3, 3)
    assert deadlines.take(101 * MS, 1) == [(3, 3)]
