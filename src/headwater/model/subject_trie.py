"""Patterns in a tree of their tokens: which of many match a subject, in steps bounded by its tokens."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from headwater.model.subject import is_literal, valid_subject

T = TypeVar("T", bound=Hashable)
_ANY, _REST = b"*", b">"


class _Branch(Generic[T]):
    """What may follow a run of tokens, and the values whose patterns end here."""

    __slots__ = ("following", "values")

    def __init__(self) -> None:
        self.following: dict[bytes, _Branch[T]] = {}
        """By the next token."""
        self.values: set[T] = set()
        """Those of the patterns that end here."""


class SubjectTrie(Generic[T]):
    """Values by patterns; a pattern matches the same subjects as a `Filter` of it."""

    def __init__(self) -> None:
        self._root: _Branch[T] = _Branch()
        self.steps = 0
        """Branches visited so far, for callers that must yield to others."""

    def __bool__(self) -> bool:
        return bool(self._root.following)

    def insert(self, pattern: str, value: T) -> None:
        """Add a value for the subjects that a pattern matches."""
        path = _path(pattern)
        if path is None:
            return
        branch = self._root
        for token in path:
            found = branch.following.get(token)
            if found is None:
                found = branch.following[token] = _Branch()
            branch = found
        branch.values.add(value)

    def remove(self, pattern: str, value: T) -> None:
        """Remove a value, if it was inserted."""
        path = _path(pattern)
        if path is None:
            return
        branches = [self._root]
        for token in path:
            found = branches[-1].following.get(token)
            if found is None:
                return
            branches.append(found)
        branches[-1].values.discard(value)
        while path and not branches[-1].values and not branches[-1].following:
            branches.pop()
            del branches[-1].following[path.pop()]

    def match(self, subject: bytes) -> set[T]:
        """Return the values whose patterns match a subject."""
        found: set[T] = set()
        for values in self._matching(subject):
            found |= values
        return found

    def has(self, subject: bytes) -> bool:
        """Return whether any pattern matches a subject."""
        return next(self._matching(subject), None) is not None

    def _matching(self, subject: bytes) -> Iterator[set[T]]:
        """Yield the values of each pattern that matches the subject, one token at a time."""
        tokens = subject.split(b".")
        last = len(tokens) - 1
        branches = [self._root]
        for index, token in enumerate(tokens):
            following: list[_Branch[T]] = []
            self.steps += len(branches)
            for branch in branches:
                below = branch.following
                if _REST in below and (index < last or token):
                    yield below[_REST].values
                if token and _ANY in below:
                    following.append(below[_ANY])
                exact = below.get(token)
                if exact is not None and token not in (_ANY, _REST):
                    following.append(exact)
            branches = following
            if not branches:
                return
        for branch in branches:
            if branch.values:
                yield branch.values


def _path(pattern: str) -> list[bytes] | None:
    """Return the tokens of a pattern, each `*…` of a wildcard as `*`, or None if it matches nothing."""
    if is_literal(pattern):
        return pattern.encode().split(b".")
    if not valid_subject(pattern):
        return None
    return [_ANY if token[:1] == "*" else token.encode() for token in pattern.split(".")]
