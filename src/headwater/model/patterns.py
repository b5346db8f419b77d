"""Many patterns as one: whether any of them matches a subject."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.model.subject import Filter
from headwater.model.subject_trie import SubjectTrie

MANY = 8
"""With more patterns than this a tree is faster than trying one after the other."""


class Patterns:
    """A client's patterns; the cost of a match does not grow with their number."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self.takes_all = not patterns or ">" in patterns
        self._few = [] if self.takes_all or len(patterns) > MANY else [Filter(p) for p in patterns]
        """Used if there are few patterns; a loop over them is fastest."""
        self._many: SubjectTrie[bool] = SubjectTrie()
        """The patterns with wildcards, if there are many."""
        self._literals: set[bytes] = set()
        """The other patterns, if there are many."""
        if not self.takes_all and not self._few:
            for pattern in patterns:
                if "*" in pattern or ">" in pattern:
                    self._many.insert(pattern, True)
                else:
                    self._literals.add(pattern.encode())

    def takes(self, subject: bytes) -> bool:
        """Return whether any of them matches a subject; without patterns every subject matches."""
        if self.takes_all:
            return True
        if self._few:
            return any(f.matches(subject) for f in self._few)
        return subject in self._literals or self._many.has(subject)
