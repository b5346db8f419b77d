"""A simple plot of a query's result: lines of SVG over the first column, or over the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

BROAD = (720, 220)
SMALL = (400, 150)
"""Width and height; a small plot has room for two or three next to it."""
LEFT, RIGHT, TOP, BOTTOM = 58, 10, 10, 24
UNITS = ((1e9, "G"), (1e6, "M"), (1e4, "k"))
MOST_LINES = 3
MOST_POINTS = 500


@dataclass(frozen=True)
class PlotLine:
    """One column."""

    title: str
    points: str
    """As SVG writes them."""


@dataclass(frozen=True)
class QueryPlot:
    """Lines in one frame."""

    lines: tuple[PlotLine, ...]
    low: str
    high: str
    first: str
    last: str
    """What stands at the ends of the axes."""
    width: int
    height: int

    @property
    def frame(self) -> tuple[int, int, int, int]:
        """Return the left, right, upper and lower edge of the room for lines."""
        return LEFT, self.width - RIGHT, TOP, self.height - BOTTOM


def plot_of(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], size: tuple[int, int] = BROAD
) -> QueryPlot | None:
    """Return a plot of the numeric columns; None if there are none, or fewer than two rows."""
    if len(rows) < 2:
        return None
    numeric = [place for place in range(len(columns)) if is_numeric([row[place] for row in rows])]
    across = _across([row[0] for row in rows]) if rows[0] else None
    shown = [place for place in numeric if place > 0 or across is None][:MOST_LINES]
    if not shown and numeric:
        shown, across = numeric[:MOST_LINES], None
    if not shown:
        return None
    xs = across or [float(place) for place in range(len(rows))]
    values = [row[place] for row in rows for place in shown if row[place] is not None]
    low, high = min(0.0, *map(float, values)), max(0.0, *map(float, values))
    lines = tuple(
        PlotLine(columns[place], _points(xs, [row[place] for row in rows], low, high, size))
        for place in shown
    )
    labels = [str(rows[0][0]), str(rows[-1][0])] if across else ["1", str(len(rows))]
    return QueryPlot(lines, _label(low), _label(high), labels[0][:30], labels[1][:30], *size)


def _label(value: float) -> str:
    """Return a number in three digits, which is what fits next to an axis."""
    for unit, sign in UNITS:
        if abs(value) >= unit:
            return f"{value / (1e3 if sign == 'k' else unit):.3g}{sign}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def is_numeric(values: Sequence[Any]) -> bool:
    """Return whether values are numbers, apart from those that are NULL."""
    known = [value for value in values if value is not None]
    return bool(known) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in known
    )


def _across(values: Sequence[Any]) -> list[float] | None:
    """Return the values of the first column as places, if they are numbers or times that ascend."""
    places = [place_of(value) for value in values]
    known = [place for place in places if place is not None]
    is_ascending = len(known) == len(places) and known == sorted(known) and known[0] < known[-1]
    return known if is_ascending else None


def place_of(value: Any) -> float | None:
    """Return the place of a number or a time on an axis, None for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    try:
        return (
            datetime.fromisoformat(value).timestamp() if isinstance(value, str) and len(value) < 40 else None
        )
    except (ValueError, OverflowError, OSError):
        return None


def _points(
    xs: Sequence[float], values: Sequence[Any], low: float, high: float, size: tuple[int, int]
) -> str:
    """Return the points of a line, thinned to a number that can be seen."""
    step = max(len(xs) // MOST_POINTS, 1)
    across, up = (xs[-1] - xs[0]) or 1.0, (high - low) or 1.0
    width, height = size[0] - LEFT - RIGHT, size[1] - TOP - BOTTOM
    return " ".join(
        f"{LEFT + (x - xs[0]) / across * width:.1f},{TOP + (high - float(value)) / up * height:.1f}"
        for x, value in list(zip(xs, values, strict=True))[::step]
        if value is not None
    )
