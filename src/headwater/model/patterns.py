"""Many patterns asked as one: whether any of them takes a subject."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.model.subject import Filter
from headwater.model.subject_trie import SubjectTrie

MANY = 8
"""With more patterns than so many a tree is faster than one after the other."""


class Patterns:
    """Patterns of a client; what a question costs does not grow with how many there are."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.takes_all = not patterns or ">" in patterns
        self._few = [] if self.takes_all or len(patterns) > MANY else [Filter(p) for p in patterns]
        self._many: SubjectTrie[bool] = SubjectTrie()
        self._literals: set[bytes] = set()
        if not self.takes_all and not self._few:
            for pattern in patterns:
                if "*" in pattern or ">" in pattern:
                    self._many.insert(pattern, True)
                else:
                    self._literals.add(pattern.encode())

    def takes(self, subject: bytes) -> bool:
        """Return whether any of them takes a subject; without patterns, every subject is taken."""
        if self.takes_all:
            return True
        if self._few:
            return any(f.matches(subject) for f in self._few)
        return subject in self._literals or self._many.has(subject)
