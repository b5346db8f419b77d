"""Which subjects a stream holds, how many messages on each, and the newest sequence of each.

Memory grows with subjects, never with messages, except where `max_msgs_per_subject` is small: then the
few sequences a subject may have are kept with their sizes, so that replacing a key reads nothing back.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from pyroaring import BitMap64

from headwater.model.subject import Filter

HISTORY_LIMIT = 64
"""Up to this `max_msgs_per_subject` the sequences of each subject are kept in memory."""


History = tuple[tuple[int, int], ...]
"""Sequences and sizes; never changed in place, so that a dump need not copy each."""
SLICE = 20_000
"""So many subjects are looked at in one turn of the event loop."""


class Located(NamedTuple):
    """Where the oldest messages of a subject lie, with their sizes: all of them up to a sequence."""

    entries: tuple[tuple[int, int], ...]
    through: int


class SubjectIndex:
    """Counts and newest sequences by subject.

    A subject in `stale` has lost its newest message: its `last` is only an upper bound until `settle`.
    """

    def __init__(self, *, history: bool = False) -> None:
        self.count: Counter[bytes] = Counter()
        self.last: dict[bytes, int] = {}
        self.stale: set[bytes] = set()
        self.oldest: dict[bytes, int] = {}
        """Hints: no message of the subject stands below this sequence."""
        self.located: dict[bytes, Located] = {}
        """Where older messages lie that a publish is about to take out."""
        self.history: dict[bytes, History] | None = {} if history else None

    def __len__(self) -> int:
        return len(self.count)

    def __contains__(self, subject: bytes) -> bool:
        return subject in self.count

    def add_run(self, subjects: Sequence[bytes], seqs: Sequence[int], sizes: Sequence[int] = ()) -> None:
        """Take in new messages, ascending by sequence; their sizes matter only where history is kept."""
        if self.history is not None:
            for subject, seq, size in zip(subjects, seqs, sizes, strict=True):
                self.history[subject] = (*self.history.get(subject, ()), (seq, size))
        self.count.update(subjects)
        self.last.update(zip(subjects, seqs, strict=True))
        if self.stale:
            self.stale.difference_update(subjects)

    def add_counts(self, counts: Mapping[bytes, tuple[int, int]]) -> None:
        """Take in new messages by how many stand on each subject and the newest sequence of each."""
        assert self.history is None
        for subject, (count, last_seq) in counts.items():
            self.count[subject] += count
            self.last[subject] = last_seq
        if self.stale:
            self.stale.difference_update(counts)

    def note_only(self, subject: bytes) -> None:
        """Keep in mind where the only message of a subject stands, for whoever looks for its oldest."""
        if self.history is None and self.count.get(subject) == 1 and subject not in self.stale:
            self.oldest[subject] = self.last[subject]

    def forget(self, subject: bytes) -> None:
        """Drop a subject that holds no message any more."""
        self.count.pop(subject, None)
        self.last.pop(subject, None)
        self.stale.discard(subject)
        self.oldest.pop(subject, None)
        self.located.pop(subject, None)
        if self.history is not None:
            self.history.pop(subject, None)

    def subtract(self, subject: bytes, left: int, gone: BitMap64) -> None:
        """Have a subject hold `left` messages, none of them among the sequences that are gone."""
        self.count[subject] = left
        if self.history is not None:
            entries = tuple([entry for entry in self.history[subject] if entry[0] not in gone])
            self.history[subject] = entries
            self.last[subject] = entries[-1][0]
        elif self.last[subject] in gone:
            self.stale.add(subject)

    def settle(self, subject: bytes, seq: int) -> None:
        """Set the newest sequence of a stale subject."""
        self.last[subject] = seq
        self.stale.discard(subject)

    def clear(self) -> None:
        """Forget everything."""
        self.count.clear()
        self.last.clear()
        self.stale.clear()
        self.oldest.clear()
        self.located.clear()
        if self.history is not None:
            self.history.clear()

    def matching(self, pattern: str) -> Iterator[bytes]:
        """Return the subjects held that the pattern matches."""
        chosen = Filter(pattern)
        if chosen.is_literal:
            literal = pattern.encode()
            return iter((literal,) if literal in self.count else ())
        return chosen.among(self.count)

    async def matched(self, pattern: str) -> list[bytes]:
        """Return the subjects held that the pattern matches, in slices between which others have their turn.

        A subject that comes or goes meanwhile may be among them or not.
        """
        chosen = Filter(pattern)
        if chosen.is_all or chosen.is_literal:
            return list(self.matching(pattern))
        found: list[bytes] = []
        for some in _slices(list(self.count)):
            found += chosen.among(some)
            await asyncio.sleep(0)
        return found

    async def newest(self, pattern: str) -> tuple[int, list[tuple[int, bytes]]]:
        """Return the newest sequence on matching subjects, and the upper bounds of those that are stale."""
        newest, bounds = 0, []
        for some in _slices(await self.matched(pattern)):
            last = [(self.last.get(subject, 0), subject) for subject in some]
            newest = max(newest, max((seq for seq, subject in last if subject not in self.stale), default=0))
            if self.stale:
                bounds += [entry for entry in last if entry[1] in self.stale]
            await asyncio.sleep(0)
        return newest, bounds

    def dump(self) -> dict[str, Any]:
        """Return a shallow copy that a checkpoint can encode later, on another thread."""
        return {
            "count": dict(self.count),
            "last": dict(self.last),
            "stale": list(self.stale),
            "history": None if self.history is None else dict(self.history),
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
    """Return the first so many subjects by name, sorted in slices between which others have their turn."""
    parts: list[list[bytes]] = []
    for some in _slices(subjects):
        parts.append(sorted(some))
        await asyncio.sleep(0)
    ordered: list[bytes] = []
    rest = heapq.merge(*parts)
    while len(ordered) < count and (some := list(islice(rest, min(SLICE, count - len(ordered))))):
        ordered += some
        await asyncio.sleep(0)
    return ordered


def _slices(subjects: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    return (subjects[start : start + SLICE] for start in range(0, len(subjects), SLICE))
