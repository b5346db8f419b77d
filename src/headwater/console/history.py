"""The past of many numbers in bounded memory: fine steps for minutes, coarse ones for hours."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable

FINE_POINTS = 300
COARSE_POINTS = 360
COARSE_S = 60.0
MOST_SERIES = 40_000
"""More numbers than this keep no history: 40,000 take about 200 MB."""


class Ring:
    """The last values of one number at regular times; a value that was not known is NaN."""

    def __init__(self, points: int) -> None:
        self._values = array("d")
        self._points = points
        self._start = 0

    def add(self, value: float) -> None:
        """Append a value; the oldest one is overwritten once the ring is full."""
        if len(self._values) < self._points:
            self._values.append(value)
        else:
            self._values[self._start] = value
            self._start = (self._start + 1) % self._points

    def values(self) -> list[float]:
        """Return the values, oldest first."""
        return [*self._values[self._start :], *self._values[: self._start]]


class Series:
    """One number: its last minutes in every step, its last hours in means of a minute."""

    def __init__(self) -> None:
        self.fine = Ring(FINE_POINTS)
        self.coarse = Ring(COARSE_POINTS)
        self._sum = 0.0
        self._count = 0
        self.last_step = -1
        """The step of the history that was recorded last."""
        self.quiet_steps = 0
        """How many steps ago the value was last known and not 0."""

    def add(self, value: float) -> None:
        """Record the value of this step."""
        self.fine.add(value)
        is_known = not math.isnan(value)
        self.quiet_steps = 0 if is_known and value else self.quiet_steps + 1
        if is_known:
            self._sum += value
            self._count += 1

    def close_minute(self) -> None:
        """Record the mean of the minute that is over."""
        self.coarse.add(self._sum / self._count if self._count else math.nan)
        self._sum, self._count = 0.0, 0


class NumberHistory:
    """Many series by key, all with the same times."""

    def __init__(self) -> None:
        self._series: dict[tuple[str, ...], Series] = {}
        """By what the number belongs to and its name."""
        self._fine_times = Ring(FINE_POINTS)
        self._coarse_times = Ring(COARSE_POINTS)
        self._minute = -1
        self._step = 0

    def record(self, at_s: float, values: Iterable[tuple[tuple[str, ...], float]]) -> None:
        """Record one step: numbers that are missing in it are unknown, and are dropped when all of it is."""
        minute = int(at_s // COARSE_S)
        if self._minute not in (-1, minute):
            self._close_minute(at_s)
        self._minute = minute
        self._fine_times.add(at_s)
        self._step += 1
        for key, value in values:
            self._series_of(key, value)
        for series in self._series.values():
            if series.last_step != self._step:
                series.add(math.nan)
        self._forget()

    def _series_of(self, key: tuple[str, ...], value: float) -> None:
        series = self._series.get(key)
        if series is None:
            if len(self._series) >= MOST_SERIES:
                return
            series = self._series[key] = Series()
        series.add(value)
        series.last_step = self._step

    def _close_minute(self, at_s: float) -> None:
        self._coarse_times.add(at_s // COARSE_S * COARSE_S)
        for series in self._series.values():
            series.close_minute()

    def _forget(self) -> None:
        """Drop what was unknown for as many steps as the history is fine: its stream is gone."""
        gone = [key for key, series in self._series.items() if self._step - series.last_step > FINE_POINTS]
        for key in gone:
            del self._series[key]

    def recent(self, key: tuple[str, ...], points: int = FINE_POINTS) -> list[float | None]:
        """Return the last values in fine steps, None where unknown."""
        series = self._series.get(key)
        return [] if series is None else _shown(series.fine.values()[-points:])

    def line(self, key: tuple[str, ...], points: int) -> list[float | None]:
        """Return the last values for a small picture; empty if all are 0 or unknown, as most are."""
        series = self._series.get(key)
        if series is None or series.quiet_steps >= points:
            return []
        return [None if value is None else round(value, 1) for value in self.recent(key, points)]

    def plot(self, key: tuple[str, ...], span_s: float) -> list[tuple[float, float | None]]:
        """Return times and values of the last `span_s` seconds, fine if that is short, else coarse."""
        series = self._series.get(key)
        if series is None:
            return []
        fine = _paired(self._fine_times, series.fine)
        coarse = _paired(self._coarse_times, series.coarse)
        edge = fine[0][0] if fine else 0.0
        points = [*(point for point in coarse if point[0] < edge), *fine]
        first = points[-1][0] - span_s if points else 0.0
        return [point for point in points if point[0] >= first]


def _paired(times: Ring, values: Ring) -> list[tuple[float, float | None]]:
    """Return the values with their times; a series that began later has fewer."""
    shown = _shown(values.values())
    stamps = times.values()
    return list(zip(stamps[len(stamps) - len(shown) :], shown, strict=True))


def _shown(values: list[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]
