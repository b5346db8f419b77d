"""A bar for each row of a query's result whose first column is text, because lines between texts mislead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headwater.console.query_plot import is_numeric, place_of

MOST_BARS = 30
ROW = 22
WIDTH = 720
LEFT, RIGHT = 230, 90
"""Room for the labels, and for the numbers behind the bars."""
LONGEST_LABEL = 24


@dataclass(frozen=True)
class QueryBar:
    """One row."""

    label: str
    value: str
    x: float
    y: int
    width: float


@dataclass(frozen=True)
class QueryBars:
    """Bars of one column, one below the other."""

    title: str
    bars: tuple[QueryBar, ...]
    zero: float
    """Where bars begin."""
    labels_end: int = LEFT - 8

    @property
    def size(self) -> tuple[int, int]:
        """Return width and height."""
        return WIDTH, ROW * len(self.bars)


def bars_of(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> QueryBars | None:
    """Return bars of the first numeric column; None unless few rows have a text first."""
    if not 2 <= len(rows) <= MOST_BARS or not all(_is_label(row[0]) for row in rows if row):
        return None
    numeric = [place for place in range(1, len(columns)) if is_numeric([row[place] for row in rows])]
    if not numeric:
        return None
    values = [float(row[numeric[0]] or 0) for row in rows]
    low, high = min(0.0, *values), max(0.0, *values)
    scale = (WIDTH - LEFT - RIGHT) / ((high - low) or 1.0)
    zero = LEFT - low * scale
    bars = tuple(
        QueryBar(
            _short(str(row[0])),
            "NULL" if row[numeric[0]] is None else f"{row[numeric[0]]:,}",
            round(zero + min(value, 0.0) * scale, 1),
            ROW * place,
            round(abs(value) * scale, 1),
        )
        for place, (row, value) in enumerate(zip(rows, values, strict=True))
    )
    return QueryBars(columns[numeric[0]], bars, round(zero, 1))


def _is_label(value: Any) -> bool:
    return isinstance(value, str) and place_of(value) is None


def _short(label: str) -> str:
    return label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…"
