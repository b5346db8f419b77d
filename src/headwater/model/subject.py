"""Subjects and patterns: what is valid, what matches, what is inside or collides with what."""

from __future__ import annotations

import re

_BLANKS = frozenset(" \t\r\n\f")
_CACHE_LIMIT = 65_536


def tokens(subject: str) -> list[str]:
    """Return the parts between the dots."""
    return subject.split(".")


def valid_subject(subject: str) -> bool:
    """Return whether this is a subject or a pattern: no empty token, no blanks, `>` only at the end."""
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
    """Return whether the literal subject is one that the pattern takes."""
    return is_subset(subject, pattern)


def is_subset(a: str, b: str) -> bool:
    """Return whether every subject that `a` takes is also taken by `b`."""
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
        # nats-server looks at the first character only: a token like `*x` in the outer pattern is a wildcard.
        if theirs[0] != "*" and ours != theirs:
            return False
    return len(inner) == len(outer)


def collides(a: str, b: str) -> bool:
    """Return whether some literal subject is taken by both."""
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
    """A pattern compiled for bulk use on the subjects of messages."""

    __slots__ = ("_cache", "_literal", "_prefix", "_regex", "is_all", "is_literal", "pattern")

    def __init__(self, pattern: str) -> None:
        parts = tokens(pattern)
        self.pattern = pattern
        self.is_all = pattern == ">"
        self.is_literal = is_literal(pattern)
        self._literal = pattern.encode()
        # `a.b.>` is a question of the prefix alone.
        self._prefix = self._literal[:-1] if parts[-1] == ">" and is_literal(".".join(parts[:-1])) else None
        self._regex = re.compile(_regex(parts), re.DOTALL)
        self._cache: dict[bytes, bool] = {}

    def matches(self, subject: bytes) -> bool:
        """Return whether the pattern takes this subject."""
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
            known = self._cache[subject] = self._regex.fullmatch(subject) is not None
        return known

    def __repr__(self) -> str:
        return f"Filter({self.pattern!r})"


def _regex(parts: list[str]) -> bytes:
    """Return the expression that takes the same subjects as the pattern."""
    taken = []
    for part in parts:
        if part == ">":
            taken.append(b".+")
        elif part.startswith("*"):
            taken.append(rb"[^.]+")
        else:
            taken.append(re.escape(part.encode()))
    return rb"\.".join(taken)
