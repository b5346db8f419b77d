"""The history keeps minutes finely and hours coarsely, in bounded memory."""

from __future__ import annotations

import math

from headwater.console.history import COARSE_POINTS, FINE_POINTS, NumberHistory, Ring

KEY = ("stream", "ORDERS", "rate")


def filled(steps: int, step_s: float = 2.0) -> NumberHistory:
    """Return a history with one number that grows by one each step."""
    history = NumberHistory()
    for step in range(steps):
        history.record(1_000_000 + step * step_s, [(KEY, float(step))])
    return history


def test_a_ring_keeps_the_last_values_in_order() -> None:
    ring = Ring(3)
    for value in range(5):
        ring.add(value)
    assert ring.values() == [2, 3, 4]


def test_recent_values_are_the_last_ones() -> None:
    history = filled(FINE_POINTS + 10)
    assert history.recent(KEY, 2) == [FINE_POINTS + 8, FINE_POINTS + 9]
    assert len(history.recent(KEY)) == FINE_POINTS


def test_a_long_plot_joins_minutes_and_steps_without_overlap() -> None:
    history = filled(FINE_POINTS * 3)
    points = history.plot(KEY, 24 * 3600)
    times = [time for time, _ in points]
    assert times == sorted(set(times))
    assert times[0] < 1_000_000 + FINE_POINTS * 2 - FINE_POINTS
    assert len(history.plot(KEY, 60)) == 31


def test_hours_are_bounded() -> None:
    history = filled(COARSE_POINTS + 100, 60.0)
    assert len(history.plot(KEY, 1e9)) <= COARSE_POINTS + FINE_POINTS


def test_a_step_without_a_value_is_unknown_and_not_zero() -> None:
    history = filled(2)
    history.record(1_000_010, [])
    assert history.recent(KEY) == [0, 1, None]
    assert history.plot(KEY, 60)[-1] == (1_000_010, None)


def test_what_is_gone_for_long_is_forgotten() -> None:
    history = filled(1)
    for step in range(FINE_POINTS + 2):
        history.record(1_000_010 + step, [(("other",), 1.0)])
    assert history.recent(KEY) == []


def test_a_number_that_began_later_has_its_own_times() -> None:
    history = filled(5)
    history.record(1_000_010, [(("late",), 7.0)])
    assert history.plot(("late",), 60) == [(1_000_010, 7.0)]


def test_a_line_is_empty_while_all_of_it_is_zero_or_unknown() -> None:
    history = NumberHistory()
    for at_s, value in enumerate((0.0, 0.0, 2.04, 0.0, math.nan, 0.0)):
        history.record(at_s, [(("a",), value)] if not math.isnan(value) else [(("b",), 1.0)])
    assert history.line(("a",), 4) == [2.0, 0.0, None, 0.0]
    assert history.line(("a",), 3) == []
    assert history.line(("unknown",), 3) == []
