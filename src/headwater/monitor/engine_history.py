"""Hours of an engine's numbers in memory: fine steps for the last hour, coarser ones for a day.

Every series has three resolutions. A coarser one takes every n-th sample of the finer one, which is exact for
counters and a sample for values that go up and down.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import NamedTuple

STEP_S = 10


class Resolution(NamedTuple):
    """Samples at one distance."""

    step_s: int
    samples: int


RESOLUTIONS = (Resolution(STEP_S, 360), Resolution(60, 360), Resolution(300, 288))
"""One hour, six hours, and a day."""
ENGINE_COLUMNS = (
    "time",
    "stored_messages",
    "stored_bytes",
    "streams",
    "consumers",
    "messages",
    "bytes",
    "lag",
    "upstreams_failing",
    "disk_free_bytes",
    "resident_memory_bytes",
    "cpu_seconds",
)
STREAM_COLUMNS = ("time", "last_seq", "messages", "bytes", "lag")
MOST_STREAMS = 100
"""Streams that have a series of their own: 100 are about 4 MB."""


class SampledSeries:
    """The samples of one thing in all resolutions; a sample is a row of numbers."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._columns = [array("d") for _ in RESOLUTIONS]
        """By resolution, the rows one after the other."""

    def add(self, number: int, row: Sequence[float]) -> None:
        """Add a sample; `number` counts the samples since the engine started."""
        assert len(row) == self._width
        for resolution, values in zip(RESOLUTIONS, self._columns, strict=True):
            if number % (resolution.step_s // STEP_S) == 0:
                if len(values) >= resolution.samples * self._width:
                    del values[: self._width]
                values.extend(row)

    def rows(self, step_s: int) -> list[list[float]]:
        """Return the samples of a resolution, the oldest first."""
        place = [resolution.step_s for resolution in RESOLUTIONS].index(step_s)
        values, width = self._columns[place], self._width
        return [list(values[start : start + width]) for start in range(0, len(values), width)]


class EngineHistory:
    """The series of the engine and of the streams that changed last."""

    def __init__(self, most_streams: int = MOST_STREAMS) -> None:
        assert most_streams > 0
        self._most = most_streams
        self.engine = SampledSeries(len(ENGINE_COLUMNS))
        self._streams: dict[str, SampledSeries] = {}
        """By account and stream, those that changed last at the end."""
        self._last: Mapping[str, tuple[float, ...]] = {}
        """By account and stream, its last numbers without the time."""
        self._number = 0
        """The number of the next sample."""

    def add(self, engine: Sequence[float], streams: Mapping[str, tuple[float, ...]]) -> None:
        """Add one sample of the engine and of all its streams, whose numbers have no time of their own."""
        self.engine.add(self._number, engine)
        for name in self._streams.keys() - streams.keys():
            del self._streams[name]
        for name, numbers in streams.items():
            has_room = name not in self._streams and len(self._streams) < self._most
            if has_room or self._last.get(name, numbers) != numbers:
                self._keep(name)
        self._last = streams
        for name, series in self._streams.items():
            series.add(self._number, (engine[0], *streams[name]))
        self._number += 1

    def _keep(self, name: str) -> None:
        """Give a stream a series, in place of the one that has not changed for the longest time."""
        series = self._streams.pop(name, None)
        if series is None:
            if len(self._streams) >= self._most:
                del self._streams[next(iter(self._streams))]
            series = SampledSeries(len(STREAM_COLUMNS))
        self._streams[name] = series

    def stream(self, name: str) -> SampledSeries | None:
        """Return the series of a stream, by `account/stream`; None if it has none."""
        return self._streams.get(name)

    @property
    def streams(self) -> list[str]:
        """Return the streams that have a series, as `account/stream`."""
        return sorted(self._streams)
