"""Items are due once, at the time that was set last."""

from __future__ import annotations

from headwater.control.due_times import SLACK, DueTimes


def test_items_come_when_they_are_due_and_once() -> None:
    times: DueTimes[str] = DueTimes()
    times.set("b", 20)
    times.set("a", 10)
    assert times.take_due(9) == []
    assert times.take_due(20) == ["a", "b"]
    assert times.take_due(100) == []
    assert len(times) == 0


def test_the_time_that_was_set_last_counts() -> None:
    times: DueTimes[str] = DueTimes()
    times.set("later", 10)
    times.set("later", 30)
    times.set("sooner", 30)
    times.set("sooner", 10)
    times.set("never", 10)
    times.set("never", None)
    assert times.take_due(10) == ["sooner"]
    assert times.take_due(30) == ["later"]


def test_a_time_that_comes_back_is_due_once() -> None:
    times: DueTimes[str] = DueTimes()
    for due_ns in (10, 20, 10):
        times.set("a", due_ns)
    assert times.take_due(30) == ["a"]


def test_times_that_were_replaced_do_not_pile_up() -> None:
    times: DueTimes[int] = DueTimes()
    for due_ns in range(10_000):
        times.set(1, due_ns)
    assert len(times._heap) <= 2 + SLACK
    assert times.take_due(10_000) == [1]
