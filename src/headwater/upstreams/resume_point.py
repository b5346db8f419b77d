"""Where an upstream resumes in its origin, and what it lost: gaps, re-created origins, lost ends."""

from __future__ import annotations

import logging
from dataclasses import replace

from headwater.clock import Clock
from headwater.model.cursor import LOST, Cursor
from headwater.model.gaps import RE_CREATED, Gap, Gaps, gaps_name
from headwater.replication.worker.lost_end import lost_end
from headwater.upstreams.origins import Origins
from headwater.upstreams.planner import OriginRange
from headwater.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)


class Resumption:
    """Finds the next sequence to copy; a gap is recorded in the target with the cursor that passes it."""

    def __init__(self, origins: Origins, clock: Clock) -> None:
        self._origins = origins
        self._clock = clock

    async def next_seq(self, upstream: Upstream, extent: OriginRange, *, noting: bool) -> int:
        """Return where to resume or begin; with `noting` the cursor passes what the origin has lost.

        With `noting` no replicator may be copying the upstream, since its cursor moves.
        """
        expected = upstream.target.replica.cursor(upstream.id)
        cursor = Cursor.decode(expected)
        if cursor.identity == LOST:
            return self._after_loss(upstream, cursor, extent)
        if cursor.identity not in ("", extent.identity):
            return await self._restarted(upstream, expected, extent, noting)
        if extent.last_seq < cursor.seq:
            raise upstream.failure(
                f"stream {upstream.source.name!r} ends at {extent.last_seq}, before {cursor.seq},"
                " which was copied already: has it lost messages?"
            )
        if lost := await self._origins.first_lost(upstream.source, cursor, extent):
            return await self._rejoined(upstream, expected, extent, lost, noting)
        upstream.identity = extent.identity
        known, begun = _known(upstream, cursor)
        seq = known + 1 if begun else await self._first(upstream, extent)
        if begun and seq < extent.first_seq and noting and extent.takes_out:
            await self._pass_gap(upstream, expected, seq, extent)
        return max(seq, min(extent.first_seq, extent.last_seq + 1))

    async def pass_removed(self, upstream: Upstream, extent: OriginRange, seq: int, first_seq: int) -> bytes:
        """Return the cursor at which messages from `first_seq` on may follow; it passes those before.

        They were removed from the origin after it was checked, from `seq` on. No replicator may be copying
        the upstream.
        """
        expected = upstream.target.replica.cursor(upstream.id)
        _, begun = _known(upstream, Cursor.decode(expected))
        if begun:
            await self._pass_gap(upstream, expected, seq, replace(extent, first_seq=first_seq))
        return upstream.target.replica.cursor(upstream.id)

    def _after_loss(self, upstream: Upstream, cursor: Cursor, extent: OriginRange) -> int:
        """Return the start sequence that was set after the cursor was lost; refuse to guess one."""
        start_seq = upstream.source.opt_start_seq
        if start_seq in (0, cursor.seq):
            raise upstream.failure(
                "the cursor was lost with a damaged checkpoint: edit the stream, and set"
                f" opt_start_seq of source {upstream.source.name!r} to the first sequence that it lacks"
            )
        upstream.identity = extent.identity
        return max(start_seq, min(extent.first_seq, extent.last_seq + 1))

    async def _first(self, upstream: Upstream, extent: OriginRange) -> int:
        """Return where the start options have an upstream begin."""
        source = upstream.source
        if not source.opt_start_seq and source.opt_start_time is not None:
            return max(await self._origins.seq_at(source, extent), 1)
        return max(source.opt_start_seq or extent.first_seq, 1)

    async def _restarted(self, upstream: Upstream, expected: bytes, extent: OriginRange, noting: bool) -> int:
        """Return where a source begins in a re-created origin; a mirror cannot continue."""
        name = upstream.source.name
        if upstream.mirrored:
            raise upstream.failure(
                f"stream {name!r} was re-created or restored since it was mirrored: re-create the mirror,"
                " too, or remove its mirror config to keep its messages"
            )
        first = await self._first(upstream, extent)
        if noting:
            logger.warning("%s: its origin was re-created, copying it from its start", upstream)
            now_ns = self._clock.now_ns()
            gaps = upstream.gaps.restarted(now_ns)
            passed, known = Cursor.decode(expected).seq, upstream.pace.origin_last_seq
            if known > passed:
                gaps = gaps.with_gap(Gap(passed + 1, known, now_ns, RE_CREATED))
            await self._pass_over(upstream, expected, extent, first - 1, gaps)
            upstream.identity = extent.identity
        return max(first, min(extent.first_seq, extent.last_seq + 1))

    async def _rejoined(
        self, upstream: Upstream, expected: bytes, extent: OriginRange, lost: int, noting: bool
    ) -> int:
        """Return where a source continues in an origin that lost its end and grew again; a mirror cannot."""
        what = lost_end(upstream.source.name)
        if upstream.mirrored:
            raise upstream.failure(
                f"{what}, from {lost} on: re-create the mirror, too,"
                " or remove its mirror config to keep its messages"
            )
        if noting:
            logger.warning("%s: %s; copying from %d on", upstream, what, lost)
            gaps, cursor = upstream.gaps.restarted(self._clock.now_ns()), Cursor.decode(expected)
            await self._pass_over(upstream, expected, extent, lost - 1, gaps, cursor.ts)
        return lost

    async def _pass_gap(self, upstream: Upstream, expected: bytes, seq: int, extent: OriginRange) -> None:
        """Move the cursor past what the origin has removed, and log a warning."""
        gap = Gap(seq, extent.first_seq - 1, self._clock.now_ns(), extent.takes_out)
        logger.warning(
            "%s: sequences %d to %d were removed before they could be copied: %s",
            upstream,
            gap.first_seq,
            gap.last_seq,
            gap.reason,
        )
        ts, gaps = Cursor.decode(expected).ts, upstream.gaps.with_gap(gap)
        await self._pass_over(upstream, expected, extent, gap.last_seq, gaps, ts)

    async def _pass_over(
        self, upstream: Upstream, expected: bytes, extent: OriginRange, seq: int, gaps: Gaps, ts: int = 0
    ) -> None:
        # `expected` is the cursor that the decision was based on: a concurrent copy must not be set back.
        await upstream.target.replica.pass_over(
            upstream.id,
            expected,
            Cursor(extent.identity, seq, ts).encode(),
            {gaps_name(upstream.id): gaps.encode()},
            seq if upstream.mirrored else 0,
        )


def _known(upstream: Upstream, cursor: Cursor) -> tuple[int, bool]:
    """Return through which sequence the target has copied, and whether it has begun to."""
    known = cursor.seq
    if upstream.mirrored:
        # A purge may have moved the mirror's end beyond what was copied: it continues from there.
        known = max(known, upstream.target.reading.durable_seq)
    return known, bool(cursor.identity or known)
