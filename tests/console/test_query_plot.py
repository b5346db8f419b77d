"""Tests of console.query_plot."""

from __future__ import annotations

from headwater.console.query_plot import MOST_LINES, MOST_POINTS, SMALL, plot_of


def test_numbers_are_lines_over_the_first_column() -> None:
    found = plot_of(["t", "n"], [(10, 0), (20, 5), (40, 10)])
    assert found is not None
    assert [line.title for line in found.lines] == ["n"]
    assert (found.low, found.high, found.first, found.last) == ("0", "10", "10", "40")
    xs = [float(point.split(",")[0]) for point in found.lines[0].points.split()]
    ys = [float(point.split(",")[1]) for point in found.lines[0].points.split()]
    assert xs[1] - xs[0] < xs[2] - xs[1]
    assert ys == sorted(ys, reverse=True), "more is higher"


def test_times_are_places_and_texts_are_counted() -> None:
    times = plot_of(["t", "n"], [("2026-01-01 00:00:00", 1), ("2026-01-02 00:00:00", 2)])
    assert times is not None
    assert times.first == "2026-01-01 00:00:00"
    texts = plot_of(["subject", "n"], [("b", 1), ("a", 2), ("c", None)])
    assert texts is not None
    assert (texts.first, texts.last) == ("1", "3")
    assert len(texts.lines[0].points.split()) == 2, "what is NULL has no point"
    alone = plot_of(["n"], [(3,), (1,)])
    assert alone is not None
    assert [line.title for line in alone.lines] == ["n"]


def test_what_has_no_numbers_or_rows_has_no_plot() -> None:
    assert plot_of(["a"], [("x",), ("y",)]) is None
    assert plot_of(["a", "n"], [(1, 2)]) is None
    assert plot_of([], []) is None
    assert plot_of(["a", "b"], [(None, True), (None, False)]) is None


def test_lines_and_points_are_bounded() -> None:
    rows = [(place, *[place] * 9) for place in range(10_000)]
    found = plot_of([f"c{place}" for place in range(10)], rows)
    assert found is not None
    assert len(found.lines) == MOST_LINES
    assert len(found.lines[0].points.split()) <= MOST_POINTS


def test_numbers_next_to_an_axis_are_short() -> None:
    for high, shown in (
        (838.297, "838"),
        (0.110251, "0.11"),
        (32_180, "32.2k"),
        (4_180, "4,180"),
        (5e9, "5G"),
    ):
        found = plot_of(["t", "n"], [(1, 0), (2, high)])
        assert found is not None
        assert found.high == shown


def test_a_small_plot_has_its_own_frame() -> None:
    found = plot_of(["t", "n"], [(1, 0), (2, 1)], SMALL)
    assert found is not None
    left, right, top, bottom = found.frame
    assert found.lines[0].points == f"{left:.1f},{bottom:.1f} {right:.1f},{top:.1f}"
