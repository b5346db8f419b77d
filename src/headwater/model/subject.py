"""Subjects and patterns: validity, matches, subsets and collisions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_BLANKS = frozenset(" \t\r\n\f")
_CACHE_LIMIT = 65_536
_MOST_PARTS = 64
"""A pattern of more tokens is not compiled to a regular expression, because clients choose patterns."""


def tokens(subject: str) -> list[str]:
    """Return the parts between the dots."""
    return subject.split(".")


def valid_subject(subject: str) -> bool:
    """Return whether this is a subject or a pattern: no empty token, no white space, `>` only at the end."""
    if not subject or not _BLANKS.isdisjoint(subject):
        return False
    parts = tokens(subject)
    return all(parts) and ">" not in parts[:-1]


def is_literal(subject: str) -> bool:
    """Return whether no token is a wildcard."""
    parts = tokens(subject)
    return "*" not in parts and ">" not in parts


def valid_literal(subject: str) -> bool:
    """Return whether a message can be published on this subject."""
    return valid_subject(subject) and is_literal(subject)


def matches(subject: str, pattern: str) -> bool:
    """Return whether the pattern matches the literal subject."""
    return is_subset(subject, pattern)


def is_subset(a: str, b: str) -> bool:
    """Return whether `b` matches every subject that `a` matches."""
    return _is_subset(tokens(a), tokens(b))


def _is_subset(inner: list[str], outer: list[str]) -> bool:
    for index, theirs in enumerate(outer):
        if index >= len(inner) or not theirs:
            return False
        if theirs == ">":
            return True
        ours = inner[index]
        if not ours or ours == ">" or (ours == "*" and theirs != "*"):
            return False
        # nats-server checks the first character only: a token like `*x` in the outer pattern is a wildcard.
        if theirs[0] != "*" and ours != theirs:
            return False
    return len(inner) == len(outer)


def collides(a: str, b: str) -> bool:
    """Return whether some literal subject matches both."""
    if a == b:
        return True
    left, right = tokens(a), tokens(b)
    left_literal, right_literal = is_literal(a), is_literal(b)
    if left_literal and right_literal:
        return False
    if left_literal:
        return _is_subset(left, right)
    if right_literal:
        return _is_subset(right, left)
    if len(left) != len(right) and ">" not in min(left, right, key=len):
        return False
    return all(_tokens_can_match(x, y) for x, y in zip(left, right, strict=False))


def _tokens_can_match(x: str, y: str) -> bool:
    if not x or not y:
        return False
    return x == y or x[0] in "*>" or y[0] in "*>"


class Filter:
    """A pattern prepared for bulk use on the subjects of messages.

    Clients choose patterns. An invalid one matches nothing, as in nats-server's stores. A match compares
    tokens one by one: it never takes more steps than subject and pattern have bytes.
    """

    __slots__ = (
        *("_cache", "_fixed", "_is_valid", "_length", "_literal", "_open", "_prefix"),
        *("is_all", "is_literal", "pattern"),
    )

    def __init__(self, pattern: str) -> None:
        parts = tokens(pattern)
        self._is_valid = valid_subject(pattern)
        self._open = parts[-1] == ">"
        """Whether it ends with `>`."""
        if self._open:
            parts.pop()
        wild = [part[:1] == "*" for part in parts]
        self.pattern = pattern
        self.is_all = pattern == ">"
        self.is_literal = is_literal(pattern)
        self._literal = pattern.encode()
        # `a.b.>` depends on the prefix only.
        by_prefix = self._is_valid and self._open and parts and not any(wild)
        self._prefix = ".".join([*parts, ""]).encode() if by_prefix else None
        self._length = len(parts)
        self._fixed = [(i, part.encode()) for i, part in enumerate(parts) if not wild[i]]
        """The index and text of each token that is no wildcard."""
        self._cache: dict[bytes, bool] = {}
        """Which of the last subjects matched."""

    def matches(self, subject: bytes) -> bool:
        """Return whether the pattern matches this subject."""
        if self.is_all:
            return True
        if self.is_literal:
            return subject == self._literal
        if self._prefix is not None:
            return subject.startswith(self._prefix) and len(subject) > len(self._prefix)
        known = self._cache.get(subject)
        if known is None:
            if len(self._cache) >= _CACHE_LIMIT:
                self._cache.clear()
            known = self._cache[subject] = self._takes(subject)
        return known

    def among(self, subjects: Iterable[bytes]) -> Iterator[bytes]:
        """Return those of very many subjects that match; faster than matching each."""
        if self.is_all:
            return iter(subjects)
        if not self._is_valid:
            return iter(())
        if self._length > _MOST_PARTS:
            return filter(self._takes, subjects)
        # Every part of the expression ends at a dot or at the end, so there is only one way to match.
        parts = [b"[^.]+"] * self._length
        for index, token in self._fixed:
            parts[index] = re.escape(token)
        expression = rb"\.".join([*parts, b".+"] if self._open else parts)
        return filter(re.compile(expression, re.DOTALL).fullmatch, subjects)

    def _takes(self, subject: bytes) -> bool:
        if not self._is_valid:
            return False
        dots = subject.count(b".")
        if dots < self._length if self._open else dots != self._length - 1:
            return False
        parts = subject.split(b".", self._length) if self._open else subject.split(b".")
        return b"" not in parts and all(parts[index] == token for index, token in self._fixed)

    def __repr__(self) -> str:
        return f"Filter({self.pattern!r})"
