"""Many patterns, to find which of them collide with another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headwater.model.subject import collides, tokens


class _PatternNode:
    """What may follow a run of tokens, and the patterns that end there."""

    __slots__ = ("ends", "following", "wild")

    def __init__(self) -> None:
        self.following: dict[str, _PatternNode] = {}
        """By the next token, those that are no wildcard."""
        self.wild: dict[str, _PatternNode] = {}
        """By the next token, the wildcards."""
        self.ends: list[int] = []
        """Indexes of patterns that end here."""


class SubjectSet:
    """Patterns in a tree of their tokens, so that a lookup visits only those that may collide."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._root = _PatternNode()
        for index, pattern in enumerate(patterns):
            node = self._root
            for token in tokens(pattern):
                branch = node.wild if _is_wild(token) else node.following
                node = branch.setdefault(token, _PatternNode())
            node.ends.append(index)

    def colliding(self, pattern: str) -> Iterator[int]:
        """Yield the indexes of the patterns that share a literal subject with this one."""
        found = self._candidates(self._root, tokens(pattern), 0)
        return (index for index in found if collides(self._patterns[index], pattern))

    def _candidates(self, node: _PatternNode, parts: list[str], at: int) -> Iterator[int]:
        """Yield every pattern below the node that could collide, and possibly some that do not."""
        if at == len(parts):
            yield from node.ends
            return
        part = parts[at]
        if part[:1] == ">":
            yield from self._all(node)
            return
        for token, child in node.wild.items():
            if token[0] == ">":
                yield from child.ends
            else:
                yield from self._candidates(child, parts, at + 1)
        if _is_wild(part):
            for child in node.following.values():
                yield from self._candidates(child, parts, at + 1)
        elif part in node.following:
            yield from self._candidates(node.following[part], parts, at + 1)

    def _all(self, node: _PatternNode) -> Iterator[int]:
        yield from node.ends
        for child in (*node.following.values(), *node.wild.values()):
            yield from self._all(child)


def _is_wild(token: str) -> bool:
    return token[:1] in ("*", ">")
