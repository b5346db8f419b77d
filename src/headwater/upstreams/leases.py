"""The pieces of work that replicators were given: whose they are, and which origin they were planned on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from weakref import ReferenceType, ref

from headwater.replication.work import Question, Work
from headwater.upstreams.upstream import Upstream

REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Planned:
    """The next pieces of work of an upstream, and the identity of the origin as it was then."""

    identity: str
    works: Sequence[Work]

    @property
    def exchange_bytes(self) -> int:
        """Return about how much of a plan they take."""
        return sum(work.exchange_bytes for work in self.works)

    @property
    def read_bytes(self) -> int:
        """Return about how much of files they read."""
        return sum(work.read_bytes for work in self.works)


NOTHING = Planned("", ())


class Leases:
    """What was handed out and has not come back; runs on the event loop.

    With a `single` replicator whatever it does not know of is lost; one of several speaks for itself alone.
    """

    def __init__(self, *, single: bool, steady_ns: Callable[[], int] = monotonic_ns) -> None:
        self._single = single
        self._steady_ns = steady_ns
        self._identities: dict[str, str] = {}
        self._of: dict[str, ReferenceType[Upstream]] = {}
        """Whose they are; an upstream that is no longer declared, with its target, need not stay for this."""
        self._given: dict[str, Upstream] = {}
        self.asker = ""
        """The replicator that asked last."""

    @property
    def identities(self) -> dict[str, str]:
        """Return the origins' identities by piece of work, those that were taken back included."""
        return self._identities

    def give(self, upstream: Upstream, planned: Planned, now_ns: int) -> None:
        """Have an upstream's pieces be under way; very old ones are forgotten."""
        upstream.handed_out(len(planned.works), now_ns)
        upstream.lease(self._steady_ns())
        for work in planned.works:
            while len(self._identities) >= REMEMBERED:
                oldest = next(iter(self._identities))
                del self._identities[oldest], self._of[oldest]
                self._given.pop(oldest, None)
            self._identities[work.id] = planned.identity
            self._of[work.id] = ref(upstream)
            self._given[work.id] = upstream

    def are_of(self, upstream: Upstream, works: Collection[str]) -> bool:
        """Return whether pieces of work were planned for this very upstream, of this very target."""
        return all(work in self._of and self._of[work]() is upstream for work in works)

    def is_leased(self, upstream: Upstream) -> bool:
        """Return whether somebody may be at work on an upstream."""
        return upstream.leased_until_ns > self._steady_ns()

    def asked(self, question: Question) -> None:
        """Take back what the replicator that asks does not know of: it never got it, or was started anew."""
        known = {self._given[work] for work in question.under_way if work in self._given}
        for upstream in known:
            upstream.lease(self._steady_ns())
        if question.name == self.asker or self._single:
            for work, upstream in list(self._given.items()):
                if upstream not in known:
                    upstream.take_back()
                    del self._given[work]
        self.asker = question.name

    def came_in(self, upstream: Upstream, works: Collection[str]) -> int:
        """Forget pieces of work; return how many of them the upstream still waits for."""
        for work in works:
            self._identities.pop(work, None)
            self._of.pop(work, None)
        # One that was taken back, or is of an upstream that was changed since, is awaited no more.
        return sum(self._given.pop(work, None) is upstream for work in works)
