"""The clocks: one that follows the machine, one that moves only when a test advances it."""

from __future__ import annotations

import time

import pytest

from headwater.clock import DrivenClock, SystemClock


def test_the_system_clock_does_not_go_back_between_two_looks() -> None:
    clock = SystemClock()
    first = clock.now_ns()
    assert clock.now_ns() >= first > 1_700_000_000_000_000_000


def test_a_driven_clock_moves_only_when_it_is_advanced() -> None:
    clock = DrivenClock(start_ns=5)
    assert clock.now_ns() == clock.now_ns() == 5
    clock.advance(7)
    assert clock.now_ns() == 12


def test_a_driven_clock_refuses_to_go_back() -> None:
    with pytest.raises(AssertionError):
        DrivenClock().advance(-1)


def test_a_step_of_the_wall_clock_leaves_the_steady_one_alone() -> None:
    clock = DrivenClock(start_ns=50)
    clock.step(-20)
    assert (clock.now_ns(), clock.steady_ns()) == (30, 50)
    clock.advance(5)
    assert (clock.now_ns(), clock.steady_ns()) == (35, 55)


def test_the_steady_time_of_the_machine_follows_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SystemClock()
    first = clock.steady_ns()
    assert abs(first - clock.now_ns()) < 3600 * 1_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.steady_ns() >= first


def test_what_the_wall_clock_was_set_by_is_the_same_from_look_to_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = SystemClock()
    assert {clock.stepped_ns() for _ in range(100)} == {0}, "two clocks are never read at once"
    real = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: real() + 3600 * 1_000_000_000)
    stepped = {clock.stepped_ns() for _ in range(100)}
    assert len(stepped) == 1
    assert abs(stepped.pop() - 3600 * 1_000_000_000) < 1_000_000_000
    monkeypatch.undo()
    assert len({clock.stepped_ns() for _ in range(100)}) == 1


def test_a_driven_clock_knows_its_steps() -> None:
    clock = DrivenClock()
    clock.advance(7)
    clock.step(-5)
    assert clock.stepped_ns() == -5
