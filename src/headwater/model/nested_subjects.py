"""Many patterns in a tree, to find whether one is inside another without comparing all pairs."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.model.subject import tokens

_ANY, _STARRED, _REST = "*", "**", ">"
"""A token like `*x` matches every token except `*`, whatever follows its star: all of them are one branch."""


class _TokenNode:
    """What may follow a run of tokens, and which patterns end here; two are enough to find another one."""

    __slots__ = ("ends", "following", "rests")

    def __init__(self) -> None:
        self.following: dict[str, _TokenNode] = {}
        """By the next token."""
        self.ends: list[int] = []
        """Indexes of patterns that end here."""
        self.rests: list[int] = []
        """Indexes of patterns that end here with `>`."""


class NestedSubjects:
    """A client's patterns, by their index in its list."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._parts = [tokens(pattern) for pattern in patterns]
        self._root = _TokenNode()
        for index, parts in enumerate(self._parts):
            self._insert(index, parts)

    def is_inside_another(self, index: int) -> bool:
        """Return whether another pattern matches everything that the one at an index matches."""
        parts = self._parts[index]
        nodes = [(self._root, 0)]
        while nodes:
            node, at = nodes.pop()
            if at == len(parts):
                if _has_other(node.ends, index):
                    return True
                continue
            if _has_other(node.rests, index):
                return True
            below = node.following
            nodes += [(below[key], at + 1) for key in _takers(parts[at]) if key in below]
        return False

    def _insert(self, index: int, parts: list[str]) -> None:
        node = self._root
        for part in parts:
            if not part:
                return  # nothing is inside a pattern with an empty token
            if part == _REST:
                node.rests.append(index)
                return
            node = node.following.setdefault(_key(part), _TokenNode())
        node.ends.append(index)


def _key(part: str) -> str:
    return _STARRED if part[0] == _ANY and part != _ANY else part


def _takers(part: str) -> tuple[str, ...]:
    """Return the branches whose tokens match everything that a token matches."""
    if not part or part == _REST:
        return ()
    if part == _ANY:
        return (_ANY,)
    return (_ANY, _STARRED) if part[0] == _ANY else (part, _ANY, _STARRED)


def _has_other(indexes: list[int], index: int) -> bool:
    return any(other != index for other in indexes[:2])
