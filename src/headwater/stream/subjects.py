"""Which subjects a stream holds, how many messages on each, and the newest sequence of each.

Memory grows with subjects, never with messages, except where `max_msgs_per_subject` is small: then the
few sequences a subject may have are kept with their sizes, so that replacing a key reads nothing back.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import islice
from typing import Any, NamedTuple

from pyroaring import BitMap64

from headwater.model.subject import Filter
from headwater.stream import selection
from headwater.stream.selection import select, slices

HISTORY_LIMIT = 64
"""Up to this `max_msgs_per_subject` the sequences of each subject are kept in memory."""
_PREPARE_TRIES = 4
"""How often subjects are looked for again because the newest message was removed meanwhile."""
History = tuple[tuple[int, int], ...]
"""Sequences and sizes; never changed in place, so that a dump need not copy each."""


class Located(NamedTuple):
    """Sequences and sizes of the oldest messages of a subject: all of them up to a sequence."""

    entries: tuple[tuple[int, int], ...]
    through: int


class _CountedSince:
    """The subjects that have changed since a count in slices began, each with the count before that."""

    def __init__(self) -> None:
        self.before: dict[bytes, int] = {}
        """By subject, its count when it first changed."""
        self.is_void = False
        """Whether everything was removed."""


class SubjectIndex:
    """Counts and newest sequences by subject.

    A subject in `stale` has lost its newest message: its `last` is only an upper bound until `settle`.
    """

    def __init__(self, *, history: bool = False) -> None:
        self.count: Counter[bytes] = Counter()
        """How many live messages each subject has."""
        self.last: dict[bytes, int] = {}
        """The newest sequence of each subject, or an upper bound if it is stale."""
        self.stale: set[bytes] = set()
        """Subjects whose newest message was removed, so that `last` is a bound."""
        self.oldest: dict[bytes, int] = {}
        """Hints: the subject has no message below this sequence."""
        self.located: dict[bytes, Located] = {}
        """The sequences of older messages that a publish is about to remove."""
        self.history: dict[bytes, History] | None = {} if history else None
        """Sequence and size of every message of a subject; None if that is not kept."""
        self._prepared: tuple[str, set[bytes]] | None = None
        """A pattern and the subjects that it matched when they were looked for."""
        self._fresh: list[bytes] | None = None
        """Subjects of messages that were stored since then."""
        self._newest_prepared = 0
        """The newest sequence on the subjects that were prepared; an upper bound if it is lost."""
        self._is_newest_lost = False
        """Whether that message was removed, and nothing newer has come since."""
        self._watches: list[_CountedSince] = []
        """The counts that are in progress."""

    def __len__(self) -> int:
        return len(self.count)

    def __contains__(self, subject: bytes) -> bool:
        return subject in self.count

    def add_run(self, subjects: Sequence[bytes], seqs: Sequence[int], sizes: Sequence[int] = ()) -> None:
        """Add new messages, ascending by sequence; their sizes matter only if history is kept."""
        if self.history is not None:
            for subject, seq, size in zip(subjects, seqs, sizes, strict=True):
                self.history[subject] = (*self.history.get(subject, ()), (seq, size))
        self._note_fresh(subjects)
        self._watch(subjects)
        self.count.update(subjects)
        self.last.update(zip(subjects, seqs, strict=True))
        if self.stale:
            self.stale.difference_update(subjects)

    def add_counts(self, counts: Mapping[bytes, tuple[int, int]]) -> None:
        """Add new messages by their count and newest sequence on each subject."""
        assert self.history is None
        self._note_fresh(counts)
        self._watch(counts)
        for subject, (count, last_seq) in counts.items():
            self.count[subject] += count
            self.last[subject] = last_seq
        if self.stale:
            self.stale.difference_update(counts)

    def note_only(self, subject: bytes) -> None:
        """Record the sequence of a subject's only message as its oldest."""
        if self.history is None and self.count.get(subject) == 1 and subject not in self.stale:
            self.oldest[subject] = self.last[subject]

    def forget(self, subject: bytes) -> None:
        """Drop a subject that has no message."""
        if self.last.get(subject) == self._newest_prepared:
            self._is_newest_lost = True
        self._watch((subject,))
        self.count.pop(subject, None)
        self.last.pop(subject, None)
        self.stale.discard(subject)
        self.oldest.pop(subject, None)
        self.located.pop(subject, None)
        if self.history is not None:
            self.history.pop(subject, None)

    def subtract(self, subject: bytes, left: int, gone: BitMap64) -> None:
        """Set the count of a subject to `left`, after these sequences were removed."""
        if self._fresh is not None and self._newest_prepared in gone:
            self._is_newest_lost = True
        self._watch((subject,))
        self.count[subject] = left
        if self.history is not None:
            entries = tuple([entry for entry in self.history[subject] if entry[0] not in gone])
            self.history[subject] = entries
            self.last[subject] = entries[-1][0]
        elif self.last[subject] in gone:
            self.stale.add(subject)

    def forget_places(self, subjects: Iterable[bytes]) -> None:
        """Forget where the oldest messages of these subjects are: what was found there was not removed."""
        for subject in subjects:
            self.located.pop(subject, None)
            self.oldest.pop(subject, None)

    @contextmanager
    def keeping_places(self, subjects: Iterable[bytes]) -> Iterator[None]:
        """Run a block that only reads: the known places of these subjects do not change."""
        known = [(subject, self.located.get(subject), self.oldest.get(subject)) for subject in subjects]
        try:
            yield
        finally:
            self.forget_places(subject for subject, _, _ in known)
            self.located.update((subject, at) for subject, at, _ in known if at is not None)
            self.oldest.update((subject, seq) for subject, _, seq in known if seq is not None)

    def settle(self, subject: bytes, seq: int) -> None:
        """Set the newest sequence of a stale subject."""
        self.last[subject] = seq
        self.stale.discard(subject)

    def clear(self) -> None:
        """Forget everything."""
        self.unprepare()
        for watch in self._watches:
            watch.is_void = True
        self.count.clear()
        self.last.clear()
        self.stale.clear()
        self.oldest.clear()
        self.located.clear()
        if self.history is not None:
            self.history.clear()

    def _note_fresh(self, subjects: Iterable[bytes]) -> None:
        if self._fresh is not None:
            self._fresh += subjects

    async def prepare(self, pattern: str, settle: Callable[[bytes], Awaitable[int]] | None = None) -> None:
        """Find what a pattern matches without blocking the event loop; `matching` then has the result.

        One pattern is prepared at a time, until `unprepare`. Subjects that are added meanwhile count. Where
        the newest message was removed, it looks again: with `settle`, which returns the newest sequence of a
        stale subject, `prepared_newest` is known afterwards unless messages are removed all the time.
        """
        for _ in range(_PREPARE_TRIES):
            if self.prepared_newest(pattern) is not None:
                return
            await self._look_for(pattern, settle)

    async def _look_for(self, pattern: str, settle: Callable[[bytes], Awaitable[int]] | None) -> None:
        self._prepared, self._fresh, self._newest_prepared, self._is_newest_lost = None, [], 0, False
        found = await select((pattern,), self.count)
        bounds: list[tuple[int, bytes]] = []
        for some in slices(list(found)):
            settled = [subject for subject in some if subject not in self.stale] if self.stale else some
            self._raise_newest(max([self.last.get(subject, 0) for subject in settled], default=0))
            if self.stale:
                bounds += [(self.last[subject], subject) for subject in some if subject in self.stale]
            await asyncio.sleep(0)
        for bound, subject in sorted(bounds, reverse=True):
            if bound <= self._newest_prepared:
                break
            if settle is None:
                self._newest_prepared, self._is_newest_lost = bound, True
                break
            self._raise_newest(await settle(subject))
        if self._fresh is not None:  # otherwise everything was removed meanwhile
            self._prepared = pattern, found

    def _raise_newest(self, seq: int) -> None:
        if seq > self._newest_prepared:
            self._newest_prepared, self._is_newest_lost = seq, False

    def unprepare(self) -> None:
        """Forget what was prepared."""
        self._prepared = self._fresh = None
        self._newest_prepared, self._is_newest_lost = 0, False

    def prepared_newest(self, pattern: str) -> int | None:
        """Return the newest sequence on subjects that a prepared pattern matches; None if it is not known."""
        if self._prepared is None or self._prepared[0] != pattern:
            return None
        self._take_fresh(Filter(pattern), self._prepared[1])
        return None if self._is_newest_lost else self._newest_prepared

    def _take_fresh(self, chosen: Filter, found: set[bytes]) -> None:
        """Have those of the fresh subjects among the prepared ones that match."""
        fresh = set(chosen.among(self._fresh or ()))
        found |= fresh
        self._fresh = []
        stale = fresh & self.stale
        self._raise_newest(max([self.last.get(subject, 0) for subject in fresh - stale], default=0))
        bound = max([self.last[subject] for subject in stale], default=0)
        if bound > self._newest_prepared:
            self._newest_prepared, self._is_newest_lost = bound, True

    def matching(self, pattern: str) -> Iterator[bytes]:
        """Return the subjects held that the pattern matches."""
        chosen = Filter(pattern)
        if self._prepared is not None and self._prepared[0] == pattern:
            found = self._prepared[1]
            self._take_fresh(chosen, found)
            return (subject for subject in found if subject in self.count)
        if chosen.is_literal:
            literal = pattern.encode()
            return iter((literal,) if literal in self.count else ())
        return chosen.among(self.count)

    async def matched(self, *patterns: str, limit: int | None = None) -> set[bytes]:
        """Return the subjects held that any pattern matches, found without holding up the event loop.

        Beyond `limit` it stops looking.
        """
        if ">" in patterns:
            return set(self.count)
        return await select(patterns, self.count, limit)

    def _watch(self, subjects: Iterable[bytes]) -> None:
        """Have the counts in progress notice that these subjects are about to change."""
        for watch in self._watches:
            for subject in subjects:
                watch.before.setdefault(subject, self.count.get(subject, 0))

    async def count_on(self, subjects: Set[bytes]) -> int:
        """Return how many messages there are on these subjects at the moment when this returns.

        They are counted in slices. Subjects that change meanwhile are counted again at the end.
        """
        while True:
            watch = _CountedSince()
            self._watches.append(watch)
            try:
                counted = await self._count_watched(subjects, watch)
            finally:
                self._watches.remove(watch)
            if not watch.is_void:
                return counted

    async def _count_watched(self, subjects: Set[bytes], watch: _CountedSince) -> int:
        total, late, before = 0, set[bytes](), watch.before
        for some in slices(list(subjects)):
            if before:
                late.update([subject for subject in some if subject in before])
                some = [subject for subject in some if subject not in before]
            total += sum([self.count.get(subject, 0) for subject in some])
            await asyncio.sleep(0)
        for subject in before.keys() & subjects:
            total += self.count.get(subject, 0) - (0 if subject in late else before[subject])
        return total

    async def newest(self, pattern: str) -> tuple[int, list[tuple[int, bytes]]]:
        """Return the newest sequence on matching subjects, and the upper bounds of those that are stale."""
        newest, bounds = 0, []
        for some in slices(list(await self.matched(pattern))):
            last = [(self.last.get(subject, 0), subject) for subject in some]
            newest = max(newest, max((seq for seq, subject in last if subject not in self.stale), default=0))
            if self.stale:
                bounds += [entry for entry in last if entry[1] in self.stale]
            await asyncio.sleep(0)
        return newest, bounds

    def dump(self) -> dict[str, Any]:
        """Return a shallow copy that a checkpoint can encode later, on another thread."""
        # `dict(table)` inserts entry by entry once anything was deleted from the table, and takes four times
        # as long as `dict.copy`: this runs on the event loop.
        return {
            "count": dict.copy(self.count),
            "last": dict.copy(self.last),
            "stale": list(self.stale),
            "history": None if self.history is None else dict.copy(self.history),
        }

    @classmethod
    def restore(cls, dumped: dict[str, Any]) -> SubjectIndex:
        """Rebuild an index from what `dump` returned."""
        index = cls()
        index.count = Counter(dumped["count"])
        index.last = dumped["last"]
        index.stale = set(dumped["stale"])
        if dumped["history"] is not None:
            index.history = {s: tuple([(seq, size) for seq, size in e]) for s, e in dumped["history"].items()}
        return index


async def in_order(subjects: Sequence[bytes], count: int) -> list[bytes]:
    """Return the first `limit` subjects by name, sorted in slices that yield to other tasks."""
    parts: list[list[bytes]] = []
    for some in slices(subjects):
        parts.append(sorted(some))
        await asyncio.sleep(0)
    ordered: list[bytes] = []
    rest = heapq.merge(*parts)
    while len(ordered) < count and (some := list(islice(rest, min(selection.SLICE, count - len(ordered))))):
        ordered += some
        await asyncio.sleep(0)
    return ordered
