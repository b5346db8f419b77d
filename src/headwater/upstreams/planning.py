"""Plans work for a replicator: a range of every upstream that has something to copy."""

from __future__ import annotations

import asyncio

import msgspec

from headwater.clock import Clock
from headwater.control.domain import Domain
from headwater.replication.work import EXCHANGE_BYTES, NatsOrigin, PlanRequest, Work
from headwater.upstreams.durables import Durables
from headwater.upstreams.leases import NOTHING, Leases, Planned
from headwater.upstreams.observer import UpstreamObserver
from headwater.upstreams.origins import prefix
from headwater.upstreams.pending_upstreams import PendingUpstreams, next_look_ns
from headwater.upstreams.planner import SLOT_BYTES, beginning_at, plan_local, plan_remote
from headwater.upstreams.resume_point import Resumption
from headwater.upstreams.upstream import Upstream
from headwater.upstreams.work_pipelines import WorkPipelines

QUEUE_MESSAGES = 100_000
QUEUE_BYTES = 64 << 20
"""How much is read of a remote work-queue or interest stream before it is acknowledged there."""
PLANS = 5
"""How often a copy is planned while its origin drops uncopied messages."""


class Planning:
    """Answers a replicator's request for work, and leases what it hands out."""

    def __init__(
        self,
        domain: Domain,
        origin: NatsOrigin,
        observer: UpstreamObserver,
        resumption: Resumption,
        durables: Durables,
        pending: PendingUpstreams,
        leases: Leases,
        clock: Clock,
    ) -> None:
        self._domain = domain
        self._pipelines = WorkPipelines(domain)
        self._origin = origin
        """The template of the description that transfer tasks get of a remote origin."""
        self._observer = observer
        self._resumption = resumption
        self._durables = durables
        self._pending = pending
        self._leases = leases
        self._clock = clock

    async def plan(self, request: PlanRequest) -> list[Work]:
        """Return the work that there is; no two plans are made at once."""
        async with self._observer.planning:
            return await self._plan(request)

    async def _plan(self, request: PlanRequest) -> list[Work]:
        """Return the work that there is, as much as fits a message and the slots read within seconds."""
        works: list[Work] = []
        size = read_bytes = 0
        now_ns = self._clock.now_ns()
        due = [u for u in self._pending if u.is_due(now_ns) and not self._leases.is_leased(u)]
        # The upstream copied last comes last, so that a full plan leaves out none of them for long.
        due.sort(key=lambda upstream: upstream.handed_ns)
        # Remote origins are asked at the same time: one that does not answer must not delay the others.
        remote = [u for u in due if u.source.external is not None]
        asked = await asyncio.gather(*(self._planned(upstream, now_ns, request) for upstream in remote))
        found = dict(zip(remote, asked, strict=True))
        for upstream in due:
            planned = found.get(upstream) or await self._planned(upstream, now_ns, request)
            if planned.read_bytes and read_bytes > request.slots * SLOT_BYTES:
                continue
            size += planned.exchange_bytes
            if works and size > EXCHANGE_BYTES:
                break
            read_bytes += planned.read_bytes
            if planned.works:
                self._leases.grant(upstream, planned, now_ns)
            works += planned.works
        return works

    async def _planned(self, upstream: Upstream, now_ns: int, request: PlanRequest) -> Planned:
        """Return the next ranges of an upstream; errors are shown, not raised."""
        with self._observer.showing(upstream, now_ns):
            self._pipelines.require_usable(upstream, request)
            if upstream.source.external is None:
                planned = await self._planned_local(upstream, now_ns, request)
            else:
                planned = await self._planned_remote(upstream, now_ns)
            return self._pipelines.added(upstream, planned)
        return NOTHING

    async def _planned_local(self, upstream: Upstream, now_ns: int, request: PlanRequest) -> Planned:
        for _ in range(PLANS):
            extent, start_seq = await self._observer.look(upstream, now_ns, planning=True)
            if start_seq > extent.last_seq:
                return NOTHING
            origin = self._domain.stream(upstream.source.name)
            works = await plan_local(
                upstream, origin, extent, start_seq, request.slots, now_ns, request.task_bytes
            )
            if not (extent.takes_out and origin.reading.first_seq > start_seq):
                break
            # Messages were removed since the origin was checked: the next check records them as a gap.
        else:
            # They are removed faster than they are planned. So the gap ends where this plan can begin.
            first_seq = origin.reading.first_seq
            cursor = await self._resumption.pass_removed(upstream, extent, start_seq, first_seq)
            works = beginning_at(works, first_seq, cursor)
        return Planned(extent.identity, works)

    async def _planned_remote(self, upstream: Upstream, now_ns: int) -> Planned:
        upstream.next_try_ns = now_ns + next_look_ns(upstream.quiet_looks)
        extent, start_seq = await self._observer.look(upstream, now_ns, planning=True)
        consumer = self._durables.last_lag(upstream) if extent.retention != "limits" else None
        if not (consumer.has_work if consumer else start_seq <= extent.last_seq):
            upstream.quiet_looks += 1
            return NOTHING
        upstream.quiet_looks = 0
        upstream.next_try_ns = now_ns
        source = upstream.source
        origin = msgspec.structs.replace(
            self._origin,
            api_prefix=prefix(source),
            deliver=source.external.deliver if source.external else "",
            stream=source.name,
            identity=extent.identity,
        )
        if consumer is not None:
            origin = msgspec.structs.replace(
                origin,
                retention=extent.retention,
                durable=consumer.name,
                rewinds=consumer.rewinds,
                max_messages=QUEUE_MESSAGES,
                max_bytes=QUEUE_BYTES,
            )
        return Planned(extent.identity, plan_remote(upstream, origin, extent, start_seq, now_ns))
