"""Metrics in OpenMetrics text, read into values that are found by name and labels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

Labels = Mapping[str, str]

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(\{.*\})? (\S+)(?: \S+)?$")
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
MOST_LINES = 500_000
"""A page with more lines than this is cut; an engine bounds its own long before."""


class ScrapedMetrics:
    """The samples of one scrape."""

    def __init__(self, text: str) -> None:
        self._samples: dict[str, list[tuple[Labels, float]]] = {}
        """Labels and values by the name of the sample."""
        for number, line in enumerate(text.splitlines()):
            if number >= MOST_LINES:
                break
            if not line.startswith("#") and (match := _SAMPLE.match(line)):
                self._add(match)

    def _add(self, match: re.Match[str]) -> None:
        name, labels, text = match.groups()
        try:
            value = float(text)
        except ValueError:
            return
        found = {key: _ESCAPED.sub(_plain, raw) for key, raw in _LABEL.findall(labels or "")}
        self._samples.setdefault(name, []).append((found, value))

    def __iter__(self) -> Iterator[str]:
        return iter(self._samples)

    def all(self, name: str) -> list[tuple[Labels, float]]:
        """Return every sample of a name with its labels."""
        return self._samples.get(name, [])

    def value(self, name: str, **labels: str) -> float | None:
        """Return the first sample that has these labels; None if there is none."""
        for found, value in self.all(name):
            if all(found.get(key) == wanted for key, wanted in labels.items()):
                return value
        return None

    def total(self, name: str) -> float:
        """Return the sum over all samples of a name."""
        return sum(value for _, value in self.all(name))

    def by_label(self, name: str, label: str) -> dict[str, float]:
        """Return the samples of a name by one of their labels."""
        return {found[label]: value for found, value in self.all(name) if label in found}


def _plain(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
