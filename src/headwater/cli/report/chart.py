"""What a report shows, as values: charts over time, and bars by subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from headwater.cli.phrases import number, size

Unit = Literal["messages", "bytes"]


@dataclass(frozen=True)
class TimeChart:
    """One value for each step of time."""

    title: str
    unit: Unit
    step_s: int
    points: Sequence[tuple[datetime, float]]
    is_area: bool = False
    """Whether it shows a total, not what happened in each step."""

    @property
    def highest(self) -> float:
        """Return the largest value."""
        return max((value for _, value in self.points), default=0.0)


@dataclass(frozen=True)
class BarChart:
    """One value for each name, the largest first."""

    title: str
    unit: Unit
    bars: Sequence[tuple[str, float]]
    total: float
    """Of all names, also those that are not shown."""


Chart = TimeChart | BarChart


def said(value: float, unit: Unit) -> str:
    """Return a value with its unit, such as `1,204` or `3.4 MiB`."""
    return size(int(value)) if unit == "bytes" else number(int(value))


def as_json(chart: Chart) -> dict[str, Any]:
    """Return a chart as JSON has it."""
    if isinstance(chart, BarChart):
        bars = [{"subject": name, chart.unit: int(value)} for name, value in chart.bars]
        return {"title": chart.title, "unit": chart.unit, "total": int(chart.total), "subjects": bars}
    points = [
        {"time": at.isoformat().replace("+00:00", "Z"), chart.unit: int(value)} for at, value in chart.points
    ]
    return {"title": chart.title, "unit": chart.unit, "step_s": chart.step_s, "points": points}
