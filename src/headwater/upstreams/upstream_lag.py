"""How far an upstream is behind its origin: in messages, and in the age of the oldest one."""

from __future__ import annotations

from headwater.upstreams.durables import Durables
from headwater.upstreams.filtered_lag import FilteredLag
from headwater.upstreams.origins import Origins, prefix
from headwater.upstreams.planner import OriginRange
from headwater.upstreams.upstream import Upstream


class UpstreamLag:
    """Measures lag where the origin is: in this engine, at a remote stream, or at our consumer there."""

    def __init__(self, origins: Origins, durables: Durables, filtered_lag: FilteredLag) -> None:
        self._origins = origins
        self._durables = durables
        """Our consumers on remote work queues and interest streams, which count for us."""
        self._filtered_lag = filtered_lag

    async def measure(self, upstream: Upstream, extent: OriginRange, start_seq: int) -> int:
        """Return how many messages are still to be copied, from the origin or from our consumer there."""
        if upstream.source.external is None:
            return await self._origins.lag(upstream, extent, start_seq)
        if extent.retention == "limits":
            return await self._filtered_lag.of(upstream, extent, start_seq, prefix(upstream.source))
        return (await self._durables.check(upstream)).lag

    async def measure_age(self, upstream: Upstream) -> None:
        """Find the age of the oldest message that is still to be copied."""
        start_seq = upstream.cursor.seq + 1
        if upstream.pace.wants_age(start_seq):
            oldest_ns = await self._origins.oldest_ns(upstream, start_seq)
            if oldest_ns is not None:
                upstream.pace.aged(start_seq, oldest_ns)
