"""Metrics as OpenMetrics text.

Written here and not with a library: a scrape of 10,000 streams is 100,000 lines. With the labels of a stream
formatted once, that takes about a tenth of a second of CPU time instead of one second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from headwater.meters import Histogram

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})

Sample = tuple[str, float]
"""Labels as `labels` returns them, and a value."""


def labels(**values: str) -> str:
    """Return labels as they follow a name; those without a value are left out."""
    shown = ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in values.items() if value)
    return f"{{{shown}}}" if shown else ""


def joined(some: str, more: str) -> str:
    """Return two sets of labels as one."""
    if not some or not more:
        return some or more
    return f"{some[:-1]},{more[1:]}"


Numbers = TypeVar("Numbers")
"""What one scrape has read of one stream, consumer or upstream."""


class Family(NamedTuple, Generic[Numbers]):
    """One number of every stream, consumer or upstream."""

    name: str
    help: str
    of: Callable[[Numbers], float | None]
    """Returns the number; None if it is unknown, which is shown as no sample."""


def samples(family: Family[Numbers], rows: Sequence[tuple[str, Numbers]]) -> list[Sample]:
    """Return the known values of a family."""
    values = ((labels, family.of(numbers)) for labels, numbers in rows)
    return [(labels, value) for labels, value in values if value is not None]


class Exposition:
    """The text of one scrape, written family by family."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    def gauge(self, name: str, help: str, samples: Iterable[Sample]) -> None:
        """Write a family of values that go up and down; nothing if there is none."""
        lines = [f"{name}{labels} {value:.17g}\n" for labels, value in samples]
        self._write(name, "gauge", help, lines)

    def counter(self, name: str, help: str, samples: Iterable[Sample]) -> None:
        """Write a family of values that only go up; the name is without `_total`."""
        lines = [f"{name}_total{labels} {value:.17g}\n" for labels, value in samples]
        self._write(name, "counter", help, lines)

    def histogram(self, name: str, help: str, histogram: Histogram, labels: str = "") -> None:
        """Write a histogram."""
        bounds = [*(f"{bound}" for bound in histogram.bounds), "+Inf"]
        reached = histogram.cumulative()
        limits = [joined(labels, f'{{le="{bound}"}}') for bound in bounds]
        lines = [f"{name}_bucket{le} {count}\n" for le, count in zip(limits, reached, strict=True)]
        lines.append(f"{name}_count{labels} {reached[-1]}\n")
        lines.append(f"{name}_sum{labels} {histogram.total:.17g}\n")
        self._write(name, "histogram", help, lines)

    def _write(self, name: str, kind: str, help: str, lines: list[str]) -> None:
        if lines:
            self._parts += [f"# TYPE {name} {kind}\n# HELP {name} {help.translate(_ESCAPES)}\n", *lines]

    def text(self) -> bytes:
        """Return everything, ended as the format demands."""
        return "".join([*self._parts, "# EOF\n"]).encode()
