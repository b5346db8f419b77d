"""Tests of monitor.engine_history."""

from __future__ import annotations

from itertools import pairwise

from headwater.monitor.engine_history import ENGINE_COLUMNS, RESOLUTIONS, EngineHistory, SampledSeries


def engine_row(time_s: float) -> list[float]:
    return [time_s, *[0.0] * (len(ENGINE_COLUMNS) - 1)]


def test_a_series_keeps_an_hour_finely_and_a_day_coarsely() -> None:
    series = SampledSeries(2)
    day = 24 * 360
    for number in range(2 * day):
        series.add(number, (number * 10, number))
    for step_s, samples in RESOLUTIONS:
        rows = series.rows(step_s)
        assert len(rows) == samples
        assert {later[0] - sooner[0] for sooner, later in pairwise(rows)} == {step_s}
        assert 2 * day * 10 - rows[-1][0] <= step_s


def test_a_stream_that_changes_replaces_the_one_that_was_idle_longest() -> None:
    history = EngineHistory(most_streams=2)
    idle = {"$G/A": (1.0, 1.0, 1.0, 0.0), "$G/B": (1.0, 1.0, 1.0, 0.0)}
    history.add(engine_row(0), idle)
    assert history.streams == ["$G/A", "$G/B"]
    history.add(engine_row(10), idle | {"$G/C": (1.0, 1.0, 1.0, 0.0)})
    assert history.streams == ["$G/A", "$G/B"], "a stream that has not changed replaces none"
    history.add(engine_row(20), {**idle, "$G/A": (2.0, 1.0, 1.0, 0.0), "$G/C": (2.0, 1.0, 1.0, 0.0)})
    assert history.streams == ["$G/A", "$G/C"]
    kept = history.stream("$G/A")
    assert kept is not None
    assert [row[:2] for row in kept.rows(10)] == [[0, 1], [10, 1], [20, 2]]


def test_a_deleted_stream_has_no_series() -> None:
    history = EngineHistory()
    history.add(engine_row(0), {"$G/A": (1.0, 1.0, 1.0, 0.0)})
    history.add(engine_row(10), {})
    assert history.streams == []
    assert history.stream("$G/A") is None
