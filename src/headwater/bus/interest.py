"""Interest: the live view of all subscriptions that a leaf connection receives."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

_CACHED = 10_000
Listener = tuple[bytes, bytes]
"""A subscribed subject, possibly with wildcards, and its queue group, empty for a plain subscription."""


class _InterestNode:
    __slots__ = ("children", "queues")

    def __init__(self) -> None:
        self.children: dict[bytes, _InterestNode] = {}
        """By the next token."""
        self.queues: set[bytes] = set()
        """The queue groups that end here; an empty name is a plain subscription."""


class Interest:
    """The subscriptions on the server, by subject and queue group."""

    def __init__(self) -> None:
        self.change_callbacks: list[Callable[[], None]] = []
        """Called in this order after a read that changed the subscriptions."""
        self._listeners: set[Listener] = set()
        """Subject and queue group of each subscription."""
        self._root = _InterestNode()
        self._found: dict[bytes, frozenset[bytes]] = {}
        """The queue groups of literal subjects that were looked up, as a cache."""
        self._waiting: asyncio.Future[None] | None = None
        """Done at the next change, for those who wait for one."""

    def __len__(self) -> int:
        return len(self._listeners)

    def __iter__(self) -> Iterator[Listener]:
        return iter(self._listeners)

    def __contains__(self, listener: Listener) -> bool:
        return listener in self._listeners

    def add(self, subject: bytes, queue: bytes = b"") -> None:
        """Add a subscription."""
        self._listeners.add((subject, queue))
        node = self._root
        for token in subject.split(b"."):
            node = node.children.setdefault(token, _InterestNode())
        node.queues.add(queue)
        self._found.clear()

    def remove(self, subject: bytes, queue: bytes = b"") -> None:
        """Remove a subscription."""
        if (subject, queue) not in self._listeners:
            return
        self._listeners.remove((subject, queue))
        path = [self._root]
        tokens = subject.split(b".")
        for token in tokens:
            path.append(path[-1].children[token])
        path[-1].queues.remove(queue)
        while tokens and not path[-1].queues and not path[-1].children:
            path.pop()
            del path[-1].children[tokens.pop()]
        self._found.clear()

    def clear(self) -> None:
        """Remove all subscriptions: the connection that reported them is lost."""
        self._listeners.clear()
        self._root = _InterestNode()
        self._found.clear()

    def queues(self, subject: bytes) -> frozenset[bytes]:
        """Return the queue groups subscribed to a literal subject, with b"" for plain subscribers."""
        found = self._found.get(subject)
        if found is None:
            if len(self._found) >= _CACHED:
                self._found.clear()
            found = self._found[subject] = frozenset(_matching(self._root, subject.split(b".")))
        return found

    def has(self, subject: bytes) -> bool:
        """Return whether a literal subject has a subscriber."""
        return bool(self.queues(subject))

    async def changed(self) -> None:
        """Return after the next change."""
        if self._waiting is None:
            self._waiting = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._waiting)

    def announce(self) -> None:
        """Notify waiters and callbacks that there were changes."""
        if self._waiting is not None:
            self._waiting.set_result(None)
            self._waiting = None
        for callback in list(self.change_callbacks):
            callback()


def _matching(node: _InterestNode, tokens: list[bytes]) -> Iterator[bytes]:
    """Yield the queue groups of all subscriptions below `node` that match the remaining tokens."""
    if not tokens:
        yield from node.queues
        return
    rest = tokens[1:]
    for token in {tokens[0], b"*"}:
        child = node.children.get(token)
        if child is not None:
            yield from _matching(child, rest)
    tail = node.children.get(b">")
    if tail is not None:
        yield from tail.queues
