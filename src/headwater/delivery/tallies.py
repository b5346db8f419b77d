"""How many messages were stored for each set of filters, without checking each consumer for each message.

Consumers with the same filters share a tally of the messages on their subjects. The tallies of a subject are
found in a tree of the filters, and cached: a message costs one lookup, a new subject a few steps per token,
however many consumers there are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from headwater.model.patterns import Patterns
from headwater.model.subject import is_literal
from headwater.model.subject_trie import SubjectTrie

REMEMBERED = 4096
"""How many subjects are cached."""


class SubjectTally:
    """How many messages were ever stored on the subjects that some filters match."""

    def __init__(self, filters: tuple[str, ...]) -> None:
        self.filters = filters
        self._patterns = Patterns(filters)
        self.takes_all = self._patterns.takes_all
        self.stored = 0
        self.users = 0
        """How many consumers share it."""

    def takes(self, subject: bytes) -> bool:
        """Return whether the filters match a subject."""
        return self._patterns.takes(subject)

    def sum(self, subjects: Mapping[bytes, int]) -> int:
        """Return how many of these messages, counted by subject, the filters match."""
        if self.takes_all:
            return sum(subjects.values())
        return sum(n for subject, n in subjects.items() if self.takes(subject))


class Tallies:
    """The tallies of one stream, one for each set of filters in use."""

    def __init__(self) -> None:
        self._by_filters: dict[tuple[str, ...], SubjectTally] = {}
        self._of_all: tuple[SubjectTally, ...] = ()
        """The tallies that count every message."""
        self._filtered: SubjectTrie[SubjectTally] = SubjectTrie()
        self._by_subject: dict[bytes, tuple[SubjectTally, ...]] = {}

    def join(self, filters: tuple[str, ...]) -> SubjectTally:
        """Return the tally of these filters, for one more consumer."""
        tally = self._by_filters.get(filters)
        if tally is None:
            tally = self._by_filters[filters] = SubjectTally(filters)
            if tally.takes_all:
                self._of_all += (tally,)
            else:
                for pattern in set(filters):
                    self._filtered.insert(pattern, tally)
            self._forget(tally)
        tally.users += 1
        return tally

    def leave(self, tally: SubjectTally) -> None:
        """Release a tally that one consumer does not use any more."""
        tally.users -= 1
        if tally.users:
            return
        del self._by_filters[tally.filters]
        if tally.takes_all:
            self._of_all = tuple(each for each in self._of_all if each is not tally)
        else:
            for pattern in set(tally.filters):
                self._filtered.remove(pattern, tally)
        self._forget(tally)

    def _forget(self, tally: SubjectTally) -> None:
        """Remove the subjects that a tally matches from the cache."""
        if not tally.takes_all and all(map(is_literal, tally.filters)):
            for pattern in tally.filters:
                self._by_subject.pop(pattern.encode(), None)
        else:
            self._by_subject.clear()

    def of(self, subject: bytes) -> tuple[SubjectTally, ...]:
        """Return the tallies that count a subject."""
        if not self._filtered:
            return self._of_all
        found = self._by_subject.get(subject)
        if found is None:
            if len(self._by_subject) >= REMEMBERED:
                self._by_subject.clear()
            found = self._by_subject[subject] = (*self._of_all, *self._filtered.match(subject))
        return found

    def of_any(self, subjects: Iterable[bytes]) -> set[SubjectTally]:
        """Return the tallies that count any of these subjects."""
        found: set[SubjectTally] = set()
        for subject in subjects:
            found.update(self.of(subject))
        return found

    def stored(self, subjects: Iterable[bytes]) -> set[SubjectTally]:
        """Count stored messages, and return the tallies that counted any."""
        return self.counted(Counter(subjects))

    def counted(self, subjects: Mapping[bytes, int]) -> set[SubjectTally]:
        """Count stored messages, given by subject; return the tallies that counted any."""
        touched: set[SubjectTally] = set()
        for subject, n in subjects.items():
            for tally in self.of(subject):
                tally.stored += n
                touched.add(tally)
        return touched
