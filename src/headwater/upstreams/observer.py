"""Looks at upstreams: measures their lag, and shows what fails or is stuck."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headwater.clock import Clock
from headwater.errors import ApiError, Error
from headwater.stream.replica.importer import CursorMovedError
from headwater.upstreams.leases import Leases
from headwater.upstreams.origin_by_consumers import OriginUnansweredError
from headwater.upstreams.origins import Origins
from headwater.upstreams.pending_upstreams import PendingUpstreams
from headwater.upstreams.planner import OriginRange
from headwater.upstreams.resume_point import Resumption
from headwater.upstreams.upstream import Upstream
from headwater.upstreams.upstream_lag import UpstreamLag

logger = logging.getLogger(__name__)

MEASURES = 3
"""How often a lag is counted while the copy moves; after that it is an upper bound."""


class UpstreamObserver:
    """Finds for one upstream at a time what its origin has and where its copy resumes."""

    def __init__(
        self,
        origins: Origins,
        lag: UpstreamLag,
        resumption: Resumption,
        pending: PendingUpstreams,
        leases: Leases,
        clock: Clock,
        *,
        on_looked: Callable[[Upstream], None],
        problem: Callable[[], str],
    ) -> None:
        self._origins = origins
        self._lag = lag
        self._resumption = resumption
        self._pending = pending
        self._leases = leases
        self._clock = clock
        self._on_looked = on_looked
        """Called after each check of an upstream, which measured its lag."""
        self._problem = problem
        """Returns why there is no replicator, if that is known."""
        self.planning = asyncio.Lock()
        """Held while a plan is made, so that no range is planned twice and no look moves a cursor."""

    async def check(self, upstream: Upstream, since_ns: float) -> None:
        """Check one upstream unless it was checked just now; errors are shown, not raised."""
        now_ns = self._clock.now_ns()
        with self.showing(upstream, now_ns):
            if abs(now_ns - upstream.looked_ns) >= since_ns and upstream.is_due(now_ns):
                await self.look(upstream, now_ns)
            if upstream.lag and upstream.error is None:
                await self._lag.measure_age(upstream)

    @contextmanager
    def showing(self, upstream: Upstream, now_ns: int) -> Iterator[None]:
        """Show what fails at the upstream; it must not keep others from being checked."""
        try:
            yield
        except CursorMovedError:
            pass  # another copy moved the cursor
        except OriginUnansweredError as error:
            upstream.failed(error.of_known_origin() if upstream.seen_ns else error, now_ns)
        except ApiError as error:
            upstream.failed(error, now_ns)
        except Exception as error:
            if not isinstance(error, Error):
                logger.exception("%s could not be checked", upstream)
            upstream.failed(upstream.failure(str(error)), now_ns)

    async def look(
        self, upstream: Upstream, now_ns: int, *, planning: bool = False
    ) -> tuple[OriginRange, int]:
        """Return the range of the origin and where to resume, and measure the lag there."""
        upstream.looked_ns = now_ns
        mark = upstream.looked_mark = self._pending.mark_of(upstream)
        # Ranges in progress, or being planned, rely on the present cursor.
        noting = planning or not (self._leases.is_leased(upstream) or self.planning.locked())
        try:
            extent, start_seq = await self._measure(upstream, now_ns, noting=noting)
        except CursorMovedError:
            raise
        except Exception:
            upstream.origin_failed()
            raise
        upstream.origin_answered(now_ns)
        upstream.pace.saw(start_seq, extent.last_seq, now_ns)
        self._on_looked(upstream)
        if not upstream.lag:
            upstream.moved(now_ns)
        elif problem := self._problem():
            upstream.cannot_move(problem, now_ns)
        else:
            upstream.stalled(self._suspicion(upstream), now_ns)
        if start_seq > extent.last_seq and upstream.cursor == upstream.durable_cursor:
            self._pending.clear(upstream, mark)
        return extent, start_seq

    async def _measure(self, upstream: Upstream, now_ns: int, *, noting: bool) -> tuple[OriginRange, int]:
        """Return the range of the origin and where to resume, and count the lag from there."""
        for _ in range(MEASURES):
            extent = await self._origins.extent(upstream.source)
            await upstream.target.replica.durable()  # a cursor that may be rolled back must not be used
            start_seq = await self._resumption.next_seq(upstream, extent, noting=noting)
            before = upstream.cursor
            lag = await self._lag.measure(upstream, extent, start_seq)
            if upstream.cursor == before:
                break
            # Messages were copied in the meantime: count again from the present cursor.
        upstream.measured(lag, start_seq - 1, now_ns)
        return extent, start_seq

    def _suspicion(self, upstream: Upstream) -> str:
        """Return why nothing may be copied, as far as the engine can see."""
        if upstream.open_ranges:
            return "a replicator was given work and has not returned it"
        return "no replicator has asked for work" if not self._leases.asker else "is a replicator running?"
