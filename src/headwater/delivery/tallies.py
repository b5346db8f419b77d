"""How many messages were stored for each set of filters, without checking each consumer for each message.

Consumers with the same filters share a tally of the messages on their subjects. The tallies of a subject are
found in a tree of the filters, and cached: a message costs one lookup, a new subject a few steps per token,
however many consumers there are.

A client may name thousands of filters. Their tally is inserted and removed in slices that yield to other
tasks, or on a thread before the stream is opened. Until the first consumer joins, and after the last has
left, it counts nothing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

from headwater.model.patterns import Patterns
from headwater.model.subject import is_literal
from headwater.model.subject_trie import SubjectTrie
from headwater.threads import on_thread

REMEMBERED = 4096
"""How many subjects are cached."""
AT_ONCE = 500
"""How many filters are inserted or removed in one turn of the event loop."""


class SubjectTally:
    """How many messages were ever stored on the subjects that some filters match."""

    def __init__(self, filters: tuple[str, ...]) -> None:
        self.filters = filters
        self._patterns = Patterns(filters)
        self.takes_all = self._patterns.takes_all
        self.is_literal = not self.takes_all and all(map(is_literal, filters))
        self.stored = 0
        """How many messages were stored since the tally was made."""
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
        """The tallies that at least one consumer uses."""
        self._of_all: tuple[SubjectTally, ...] = ()
        """The tallies that count every message."""
        self._filtered: SubjectTrie[SubjectTally] = SubjectTrie()
        """The tallies with filters, by their patterns."""
        self._by_subject: dict[bytes, tuple[SubjectTally, ...]] = {}
        """A cache of which tallies match a subject."""
        self._unused: list[SubjectTally] = []
        """The tallies that no consumer uses and that are still in the tree."""

    @classmethod
    def of_many(cls, filters: Iterable[tuple[str, ...]]) -> Tallies:
        """Return tallies with the large ones of these sets of filters, for `join`; a thread may call it."""
        tallies = cls()
        for each in filters:
            if len(each) > AT_ONCE and each not in tallies._by_filters:
                tallies._build(each)
        return tallies

    def _build(self, filters: tuple[str, ...]) -> SubjectTally:
        tally = self._by_filters[filters] = SubjectTally(filters)
        if not tally.takes_all:
            for pattern in filters:
                self._filtered.insert(pattern, tally)
        return tally

    async def prepare(self, filters: tuple[str, ...]) -> None:
        """Build the tally of very many filters, so that `join` finds it; the caller must join it at once."""
        if len(filters) <= AT_ONCE or filters in self._by_filters:
            return
        tally = await on_thread(SubjectTally, filters)
        try:
            await self._insert(tally)
        except BaseException:
            self._unused.append(tally)
            raise
        if filters in self._by_filters:
            self._unused.append(tally)
        else:
            self._by_filters[filters] = tally

    async def _insert(self, tally: SubjectTally) -> None:
        if tally.takes_all:
            return
        for start in range(0, len(tally.filters), AT_ONCE):
            for pattern in tally.filters[start : start + AT_ONCE]:
                self._filtered.insert(pattern, tally)
            await asyncio.sleep(0)

    def join(self, filters: tuple[str, ...]) -> SubjectTally:
        """Return the tally of these filters, for one more consumer."""
        tally = self._by_filters.get(filters)
        if tally is None:
            tally = self._build(filters)
        tally.users += 1
        if tally.users == 1:
            if tally.takes_all:
                self._of_all += (tally,)
            self._forget(tally)
        return tally

    def leave(self, tally: SubjectTally) -> None:
        """Release a tally that one consumer does not use any more; `tidy` removes what is left of it."""
        tally.users -= 1
        if tally.users:
            return
        del self._by_filters[tally.filters]
        if tally.takes_all:
            self._of_all = tuple(each for each in self._of_all if each is not tally)
        elif len(tally.filters) <= AT_ONCE:
            self._remove(tally, tally.filters)
        else:
            self._unused.append(tally)
        self._forget(tally)

    async def tidy(self) -> None:
        """Remove the filters that no consumer uses any more from the tree."""
        while self._unused:
            tally = self._unused[0]
            for start in range(0, len(tally.filters), AT_ONCE):
                self._remove(tally, tally.filters[start : start + AT_ONCE])
                await asyncio.sleep(0)
            if tally in self._unused:
                self._unused.remove(tally)

    def _remove(self, tally: SubjectTally, filters: Iterable[str]) -> None:
        for pattern in filters:
            self._filtered.remove(pattern, tally)

    def _forget(self, tally: SubjectTally) -> None:
        """Remove the subjects that a tally matches from the cache."""
        if tally.is_literal:
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
            filtered = (tally for tally in self._filtered.match(subject) if tally.users)
            found = self._by_subject[subject] = (*self._of_all, *filtered)
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
