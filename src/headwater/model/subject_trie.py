"""Patterns by their leading tokens: which of many match a subject, in steps bounded by its tokens.

A client may name thousands of patterns. An object for each of their tokens would make every garbage
collection of Python longer, during which all clients wait. So the tree has no branches of its own: a place in
it is the text of the tokens that lead there, in a dictionary that the collector does not look into.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Generic, TypeVar

from headwater.model.subject import is_literal, valid_subject

T = TypeVar("T", bound=Hashable)
_ANY, _REST = b"*", b">"


class SubjectTrie(Generic[T]):
    """Values by patterns; a pattern matches the same subjects as a `Filter` of it."""

    def __init__(self) -> None:
        self._places: dict[bytes, int] = {}
        """Leading tokens of patterns, each with a dot behind it, and how many patterns begin with them."""
        self._values: dict[bytes, T] = {}
        """Of each whole pattern, in the same form, one value."""
        self._others: dict[bytes, set[T]] = {}
        """The other values of patterns that have several."""
        self.steps = 0
        """Places visited so far, for callers that must yield to others."""

    def __bool__(self) -> bool:
        return bool(self._values)

    def insert(self, pattern: str, value: T) -> None:
        """Add a value for the subjects that a pattern matches."""
        path = _path(pattern)
        if path is None:
            return
        if path not in self._values:
            self._values[path] = value
            for place in _places(path):
                self._places[place] = self._places.get(place, 0) + 1
        elif self._values[path] != value:
            self._others.setdefault(path, set()).add(value)

    def remove(self, pattern: str, value: T) -> None:
        """Remove a value, if it was inserted."""
        path = _path(pattern)
        if path is None or path not in self._values:
            return
        others = self._others.get(path)
        if self._values[path] != value:
            if others is not None:
                others.discard(value)
        elif others:
            self._values[path] = others.pop()
        else:
            self._forget(path)
        if others is not None and not others:
            del self._others[path]

    def _forget(self, path: bytes) -> None:
        """Remove a pattern that has no value any more."""
        del self._values[path]
        for place in _places(path):
            left = self._places[place] - 1
            if left:
                self._places[place] = left
            else:
                del self._places[place]

    def match(self, subject: bytes) -> set[T]:
        """Return the values whose patterns match a subject."""
        found: set[T] = set()
        for path in self._matching(subject):
            found.add(self._values[path])
            if path in self._others:
                found |= self._others[path]
        return found

    def has(self, subject: bytes) -> bool:
        """Return whether any pattern matches a subject."""
        return next(self._matching(subject), None) is not None

    def _matching(self, subject: bytes) -> Iterator[bytes]:
        """Yield each pattern that matches the subject, one token at a time."""
        tokens = subject.split(b".")
        last = len(tokens) - 1
        places, known, values = [b""], self._places, self._values
        for index, token in enumerate(tokens):
            following: list[bytes] = []
            self.steps += len(places)
            for place in places:
                if (index < last or token) and (rest := place + b">.") in values:
                    yield rest
                if token and (following_any := place + b"*.") in known:
                    following.append(following_any)
                if token != _ANY and token != _REST and (exact := b"%b%b." % (place, token)) in known:
                    following.append(exact)
            places = following
            if not places:
                return
        yield from [place for place in places if place in values]


def _path(pattern: str) -> bytes | None:
    """Return the tokens of a pattern, each `*…` of a wildcard as `*`, or None if it matches nothing."""
    if is_literal(pattern):
        return pattern.encode() + b"."
    if not valid_subject(pattern):
        return None
    return b"".join([b"*." if token[:1] == "*" else token.encode() + b"." for token in pattern.split(".")])


def _places(path: bytes) -> Iterator[bytes]:
    """Yield the leading tokens of a pattern: the first, the first two, and so on, and the whole."""
    end = path.find(b".")
    while end >= 0:
        yield path[: end + 1]
        end = path.find(b".", end + 1)
