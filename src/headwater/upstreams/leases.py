"""The ranges that replicators were given: their upstreams, their leases, and the origin's identity then."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from time import monotonic_ns
from weakref import ReferenceType, ref

from headwater.replication.work import PlanRequest, Work
from headwater.upstreams.upstream import Upstream

REMEMBERED = 10_000
"""How many ranges are remembered, so that late receipts are recognized."""


@dataclass(frozen=True, slots=True)
class Planned:
    """The next ranges of an upstream, and the identity of the origin when they were planned."""

    identity: str
    works: Sequence[Work]

    @property
    def exchange_bytes(self) -> int:
        """Return about how many bytes of a plan they take."""
        return sum(work.exchange_bytes for work in self.works)

    @property
    def read_bytes(self) -> int:
        """Return about how many bytes of files they read."""
        return sum(work.read_bytes for work in self.works)


NOTHING = Planned("", ())


class Leases:
    """The ranges that were handed out and have not returned; runs on the event loop.

    With a `single` replicator every range that it does not report is lost. One of several replicators speaks
    only for itself.
    """

    def __init__(self, *, single: bool, steady_ns: Callable[[], int] = monotonic_ns) -> None:
        self._single = single
        self._steady_ns = steady_ns
        """Returns nanoseconds of a clock that is never set back."""
        self._identities: dict[str, str] = {}
        """The origin's identity of each known range, by the range's id."""
        self._of: dict[str, ReferenceType[Upstream]] = {}
        """The upstream of each known range; the reference does not keep a removed upstream alive."""
        self._given: dict[str, Upstream] = {}
        """The upstream of each range that is leased."""
        self.asker = ""
        """The replicator that asked last."""

    @property
    def identities(self) -> dict[str, str]:
        """Return the origins' identities by range, including revoked ranges."""
        return self._identities

    def grant(self, upstream: Upstream, planned: Planned, now_ns: int) -> None:
        """Lease an upstream's ranges; the oldest known ranges are forgotten."""
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

    def belong_to(self, upstream: Upstream, works: Collection[str]) -> bool:
        """Return whether ranges were planned for this upstream of this target."""
        return all(work in self._of and self._of[work]() is upstream for work in works)

    def is_leased(self, upstream: Upstream) -> bool:
        """Return whether a replicator may be copying an upstream."""
        return upstream.leased_until_ns > self._steady_ns()

    def renew(self, request: PlanRequest) -> None:
        """Revoke the leases that the asking replicator does not know: it never got them, or was restarted."""
        known = {self._given[work] for work in request.under_way if work in self._given}
        for upstream in known:
            upstream.lease(self._steady_ns())
        if request.name == self.asker or self._single:
            for work, upstream in list(self._given.items()):
                if upstream not in known:
                    upstream.revoke()
                    del self._given[work]
        self.asker = request.name

    def returned(self, upstream: Upstream, works: Collection[str]) -> int:
        """Forget ranges; return how many of them the upstream still waits for."""
        for work in works:
            self._identities.pop(work, None)
            self._of.pop(work, None)
        # A revoked range, or one of an upstream that was changed since, is not awaited any more.
        return sum(self._given.pop(work, None) is upstream for work in works)
