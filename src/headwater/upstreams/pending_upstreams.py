"""Which upstreams may have something to copy, so that those with nothing to do cost nothing.

An upstream of a stream of this engine rests once it has copied everything, until that stream grows, comes
or goes. One of an origin elsewhere never rests, since nobody tells us when that grows; it is asked less often
the longer it stays as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from headwater.stream.stream import Stream
from headwater.upstreams.upstream import Upstream

LOOK_NS = 500_000_000
"""How often an origin elsewhere is asked how far it is, while it grows."""
SLOWEST = 10
"""How many times as long the pauses become when it does not."""
QUIET_LOOKS = 20


class PendingUpstreams:
    """The upstreams to be looked at, in the order in which they were stirred up; runs on the event loop."""

    def __init__(self) -> None:
        self.grown = asyncio.Event()
        """Set when there may be something to copy."""
        self.is_new = False
        """Whether that is because an upstream was declared: what it copies is there already."""
        self._waiting: dict[Upstream, int] = {}
        """Of each the number of the time that it was last stirred up."""
        self._times = 0
        self._by_target: dict[str, Sequence[Upstream]] = {}
        self._by_origin: dict[str, dict[Upstream, None]] = {}
        self._watchers: dict[str, Callable[[], None]] = {}

    def __iter__(self) -> Iterator[Upstream]:
        return iter(list(self._waiting))

    def __contains__(self, upstream: Upstream) -> bool:
        return upstream in self._waiting

    def declare(self, target: str, upstreams: Sequence[Upstream]) -> None:
        """Have these be the upstreams of a target, instead of those that were."""
        for upstream in self._by_target.pop(target, ()):
            self._waiting.pop(upstream, None)
            beside = self._by_origin.get(upstream.source.name, {})
            beside.pop(upstream, None)
            if not beside:
                self._by_origin.pop(upstream.source.name, None)
        if upstreams:
            self._by_target[target] = upstreams
            self.is_new = True
        for upstream in upstreams:
            if upstream.source.external is None:
                self._by_origin.setdefault(upstream.source.name, {})[upstream] = None
            self.stir(upstream)

    def opened(self, stream: Stream) -> None:
        """Notice from now on when a stream grows."""
        name = stream.name

        def grows() -> None:
            self._times += 1
            self._waiting.update(dict.fromkeys(self._by_origin.get(name, ()), self._times))
            self.grown.set()

        self._watchers[name] = grows
        stream.events.message_callbacks.add(grows)
        grows()

    def closed(self, stream: Stream) -> None:
        """Have those that copy from a stream notice that it is gone."""
        grows = self._watchers.pop(stream.name, None)
        if grows is not None:
            stream.events.message_callbacks.discard(grows)
            grows()

    def stir(self, upstream: Upstream) -> None:
        """Have an upstream looked at again."""
        self._times += 1
        self._waiting[upstream] = self._times
        self.grown.set()

    def stirred(self, upstream: Upstream) -> int:
        """Return a number that changes when an upstream is stirred up; to be told when it may rest."""
        return self._waiting.get(upstream, 0)

    def rest(self, upstream: Upstream, stirred: int) -> None:
        """Look at an upstream no more until its origin grows, unless it did since `stirred` was asked for."""
        if upstream.source.external is None and self._waiting.get(upstream) == stirred:
            del self._waiting[upstream]


def next_look_ns(quiet_looks: int) -> int:
    """Return how long to wait before an origin elsewhere is asked again, after looks that found nothing."""
    return LOOK_NS * min(1 + quiet_looks // QUIET_LOOKS, SLOWEST)
