"""The upstreams that may have something to copy, so that idle ones cost nothing.

An upstream of a local origin is removed once it has copied everything, until that stream grows, is created or
deleted. One of a remote origin always stays, since the engine gets no event when a remote stream grows. It is
checked less often the longer the origin does not change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from headwater.stream.stream import Stream
from headwater.upstreams.upstream import Upstream

LOOK_NS = 500_000_000
"""How often a remote origin is checked while it grows."""
SLOWEST = 10
"""The largest factor by which the pause between checks grows."""
QUIET_LOOKS = 20
"""After this many checks without change the pause grows by another `LOOK_NS`."""


class PendingUpstreams:
    """The upstreams to check, in the order in which they were marked; runs on the event loop."""

    def __init__(self) -> None:
        self.grown = asyncio.Event()
        """Set when there may be something to copy."""
        self.is_new = False
        """Whether an upstream was declared: there is probably much to copy already."""
        self._waiting: dict[Upstream, int] = {}
        """The number of the last mark of each pending upstream."""
        self._marks = 0
        """How often an upstream was marked; the last mark of each is its value in `_waiting`."""
        self._by_target: dict[str, Sequence[Upstream]] = {}
        self._by_origin: dict[str, dict[Upstream, None]] = {}
        """The upstreams that copy from a stream of this engine, by its name."""
        self._watchers: dict[str, Callable[[], None]] = {}
        """The callback that each open stream calls when it grows."""

    def __iter__(self) -> Iterator[Upstream]:
        return iter(list(self._waiting))

    def __contains__(self, upstream: Upstream) -> bool:
        return upstream in self._waiting

    def declare(self, target: str, upstreams: Sequence[Upstream]) -> None:
        """Set the upstreams of a target, replacing its previous ones."""
        for upstream in self._by_target.pop(target, ()):
            self._waiting.pop(upstream, None)
            siblings = self._by_origin.get(upstream.source.name, {})
            siblings.pop(upstream, None)
            if not siblings:
                self._by_origin.pop(upstream.source.name, None)
        if upstreams:
            self._by_target[target] = upstreams
            self.is_new = True
        for upstream in upstreams:
            if upstream.source.external is None:
                self._by_origin.setdefault(upstream.source.name, {})[upstream] = None
            self.mark(upstream)

    def opened(self, stream: Stream) -> None:
        """Mark the upstreams of a stream, now and whenever it grows."""
        name = stream.name

        def grows() -> None:
            self._marks += 1
            self._waiting.update(dict.fromkeys(self._by_origin.get(name, ()), self._marks))
            self.grown.set()

        self._watchers[name] = grows
        stream.events.message_callbacks.add(grows)
        grows()

    def closed(self, stream: Stream) -> None:
        """Mark the upstreams of a stream that was closed or deleted."""
        grows = self._watchers.pop(stream.name, None)
        if grows is not None:
            stream.events.message_callbacks.discard(grows)
            grows()

    def mark(self, upstream: Upstream) -> None:
        """Have an upstream checked again."""
        self._marks += 1
        self._waiting[upstream] = self._marks
        self.grown.set()

    def mark_of(self, upstream: Upstream) -> int:
        """Return a number that changes when an upstream is marked again; `clear` expects it."""
        return self._waiting.get(upstream, 0)

    def clear(self, upstream: Upstream, mark: int) -> None:
        """Remove an upstream until its origin grows, unless it was marked since `mark_of` was called."""
        if upstream.source.external is None and self._waiting.get(upstream) == mark:
            del self._waiting[upstream]


def next_look_ns(quiet_looks: int) -> int:
    """Return how long to wait before a remote origin is checked again, after checks without change."""
    return LOOK_NS * min(1 + quiet_looks // QUIET_LOOKS, SLOWEST)
