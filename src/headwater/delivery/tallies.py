"""How many messages were stored for each set of filters, without asking each consumer about each message.

Consumers with the same filters share a tally of what was stored on the subjects they take. Which tallies a
subject counts for is found once and remembered, so a message costs one look-up, however many consumers sleep.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headwater.model.subject import Filter

REMEMBERED = 65_536


class Tally:
    """How many messages were ever stored on the subjects that some filters take."""

    def __init__(self, filters: tuple[str, ...]) -> None:
        self.filters = filters
        self._compiled = [] if not filters or ">" in filters else [Filter(f) for f in filters]
        self.stored = 0
        self.users = 0

    def takes(self, subject: bytes) -> bool:
        """Return whether the filters take a subject."""
        return not self._compiled or any(f.matches(subject) for f in self._compiled)

    def sum(self, subjects: Mapping[bytes, int]) -> int:
        """Return how many of these messages, counted by subject, the filters take."""
        if not self._compiled:
            return sum(subjects.values())
        return sum(n for subject, n in subjects.items() if self.takes(subject))


class Tallies:
    """The tallies of one stream, one for each set of filters in use."""

    def __init__(self) -> None:
        self._by_filters: dict[tuple[str, ...], Tally] = {}
        self._by_subject: dict[bytes, tuple[Tally, ...]] = {}

    def join(self, filters: tuple[str, ...]) -> Tally:
        """Return the tally of these filters, for one more consumer."""
        tally = self._by_filters.get(filters)
        if tally is None:
            tally = self._by_filters[filters] = Tally(filters)
            self._by_subject.clear()
        tally.users += 1
        return tally

    def leave(self, tally: Tally) -> None:
        """Let go of a tally that one consumer uses no more."""
        tally.users -= 1
        if not tally.users:
            del self._by_filters[tally.filters]
            self._by_subject.clear()

    def of(self, subject: bytes) -> tuple[Tally, ...]:
        """Return the tallies that a subject counts for."""
        found = self._by_subject.get(subject)
        if found is None:
            if len(self._by_subject) >= REMEMBERED:
                self._by_subject.clear()
            found = tuple(tally for tally in self._by_filters.values() if tally.takes(subject))
            self._by_subject[subject] = found
        return found

    def stored(self, subjects: Iterable[bytes]) -> set[Tally]:
        """Count stored messages, and return the tallies that counted any."""
        return self.counted(Counter(subjects))

    def counted(self, subjects: Mapping[bytes, int]) -> set[Tally]:
        """Count stored messages by how many stand on each subject; return the tallies that counted any."""
        touched: set[Tally] = set()
        for subject, n in subjects.items():
            for tally in self.of(subject):
                tally.stored += n
                touched.add(tally)
        return touched
