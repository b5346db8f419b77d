"""Which of many subjects match any of many patterns, found in slices that yield to other tasks.

Clients choose the patterns and fill the stream: there may be thousands of those and millions of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Sequence

from headwater.model.patterns import MANY
from headwater.model.subject import Filter, is_literal
from headwater.model.subject_trie import SubjectTrie

SLICE = 20_000
"""How many subjects are compared with one pattern in one turn of the event loop."""
PATTERNS = 2000
"""How many patterns are inserted in one turn."""
STEPS = 20_000
"""How many branches of a trie of patterns are visited in one turn, before the last subject is finished."""


class Selection:
    """Finds the subjects that match any of these patterns, any number of times."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._wild: list[str] | None = None
        """The patterns with wildcards, once they are known."""
        self._literals: list[bytes] = []
        self._tree: SubjectTrie[bool] | None = None
        """None if the patterns are few, or are not known yet."""

    async def among(self, subjects: Collection[bytes], limit: int | None = None) -> set[bytes]:
        """Return the subjects that match any pattern; stop once there are more than `limit`.

        A subject that comes or goes meanwhile may be among them or not.
        """
        wild, found = await self._prepared(), set[bytes]()
        for start in range(0, len(self._literals), PATTERNS):
            found.update([each for each in self._literals[start : start + PATTERNS] if each in subjects])
            await asyncio.sleep(0)
        if wild and (limit is None or len(found) <= limit):
            find = self._one_by_one if self._tree is None else self._by_tree
            await find(wild, list(subjects), limit, found)
        return found

    async def _prepared(self) -> list[str]:
        """Return the patterns with wildcards; many of them are in a tree then."""
        if self._wild is not None:
            return self._wild
        wild, literals = list[str](), list[bytes]()
        for start in range(0, len(self._patterns), PATTERNS):
            for pattern in self._patterns[start : start + PATTERNS]:
                if is_literal(pattern):
                    literals.append(pattern.encode())
                else:
                    wild.append(pattern)
            await asyncio.sleep(0)
        if len(wild) > MANY:
            tree: SubjectTrie[bool] = SubjectTrie()
            for start in range(0, len(wild), PATTERNS):
                for pattern in wild[start : start + PATTERNS]:
                    tree.insert(pattern, True)
                await asyncio.sleep(0)
            self._tree = tree
        self._literals, self._wild = literals, wild
        return wild

    async def _one_by_one(
        self, patterns: Sequence[str], subjects: Sequence[bytes], limit: int | None, found: set[bytes]
    ) -> None:
        for pattern in patterns:
            chosen = Filter(pattern)
            for some in slices(subjects):
                found.update(chosen.among(some))
                if limit is not None and len(found) > limit:
                    return
                await asyncio.sleep(0)

    async def _by_tree(
        self, patterns: Sequence[str], subjects: Sequence[bytes], limit: int | None, found: set[bytes]
    ) -> None:
        tree = self._tree
        assert tree is not None
        for subject in subjects:
            if tree.has(subject):
                found.add(subject)
                if limit is not None and len(found) > limit:
                    return
            if tree.steps >= STEPS:
                tree.steps = 0
                await asyncio.sleep(0)


async def select(
    patterns: Sequence[str], subjects: Collection[bytes], limit: int | None = None
) -> set[bytes]:
    """Return the subjects that match any pattern; stop once there are more than `limit`."""
    return await Selection(patterns).among(subjects, limit)


def slices(subjects: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the subjects in order, in slices for one turn each."""
    return (subjects[start : start + SLICE] for start in range(0, len(subjects), SLICE))
