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


async def select(
    patterns: Sequence[str], subjects: Collection[bytes], limit: int | None = None
) -> set[bytes]:
    """Return the subjects that match any pattern; stop once there are more than `limit`.

    A subject that comes or goes meanwhile may be among them or not.
    """
    found: set[bytes] = set()
    wild: list[str] = []
    for start in range(0, len(patterns), PATTERNS):
        for pattern in patterns[start : start + PATTERNS]:
            if not is_literal(pattern):
                wild.append(pattern)
            elif (literal := pattern.encode()) in subjects:
                found.add(literal)
        await asyncio.sleep(0)
    if wild and (limit is None or len(found) <= limit):
        await (_one_by_one if len(wild) <= MANY else _by_tree)(wild, list(subjects), limit, found)
    return found


async def _one_by_one(
    patterns: Sequence[str], subjects: Sequence[bytes], limit: int | None, found: set[bytes]
) -> None:
    for pattern in patterns:
        chosen = Filter(pattern)
        for some in slices(subjects):
            found.update(chosen.among(some))
            if limit is not None and len(found) > limit:
                return
            await asyncio.sleep(0)


async def _by_tree(
    patterns: Sequence[str], subjects: Sequence[bytes], limit: int | None, found: set[bytes]
) -> None:
    tree: SubjectTrie[bool] = SubjectTrie()
    for start in range(0, len(patterns), PATTERNS):
        for pattern in patterns[start : start + PATTERNS]:
            tree.insert(pattern, True)
        await asyncio.sleep(0)
    for subject in subjects:
        if tree.has(subject):
            found.add(subject)
            if limit is not None and len(found) > limit:
                return
        if tree.steps >= STEPS:
            tree.steps = 0
            await asyncio.sleep(0)


def slices(subjects: Sequence[bytes]) -> Iterator[Sequence[bytes]]:
    """Yield the subjects in order, in slices for one turn each."""
    return (subjects[start : start + SLICE] for start in range(0, len(subjects), SLICE))
