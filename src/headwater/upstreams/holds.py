"""Holds: what origins of the same engine keep for the upstreams that copy from them.

1. An upstream holds its origin's messages from its declaration on, also if the origin is created later.
2. Its target commits. The floor of the hold follows the durable cursor.
3. The origin removes what no hold needs any more, as a removal in its log.

When a store is opened the floors are taken from the cursors. A crash between 2 and 3 can make removals late,
but never early: the cursor is durable before the floor moves.
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Iterable

from headwater.background_tasks import BackgroundTasks
from headwater.control.domain import Domain
from headwater.errors import Error
from headwater.model.stream import Retention
from headwater.stream.retention.hold import Hold
from headwater.stream.stream import Stream
from headwater.upstreams.upstream import Upstream

logger = logging.getLogger(__name__)


class UpstreamHold:
    """One upstream's hold on the current origin of its name."""

    def __init__(self, upstream: Upstream, origin: Stream) -> None:
        source = upstream.source
        self.upstream = upstream
        self.origin = origin
        self.hold = Hold(upstream.filters, start_seq=source.opt_start_seq or 1)
        self.is_placed = bool(source.opt_start_seq) or source.opt_start_time is None
        """Whether its start is known; until then it holds everything and releases nothing."""
        origin.retention.holds.add(self.hold)

    @property
    def is_due(self) -> bool:
        """Return whether the floor can move, or the origin can release messages."""
        cursor = self.upstream.durable_cursor
        has_moved = cursor.identity == self.origin.identity and cursor.seq > self.hold.floor
        return has_moved or self.hold.next_release is not None

    async def follow(self) -> None:
        """Move the floor to the target's durable cursor, and release messages at the origin."""
        if not self.is_placed:
            self.hold.start_seq = await self.origin.reading.seq_at(self.upstream.source.opt_start_time or 0)
            self.is_placed = True
        cursor = self.upstream.durable_cursor
        if cursor.identity == self.origin.identity:
            self.hold.floor = max(self.hold.floor, cursor.seq)
        retention = self.origin.config.retention
        settled = self.hold.next_release
        if retention is Retention.LIMITS or settled is None:
            return
        generation = self.origin.reading.generation
        # After a start the whole stream is due. Most often no copied message is left.
        if any(self.origin.reading.subject_counts(pattern) for pattern in self.hold.filters or (">",)):
            await self.origin.retention.drop_unneeded(*settled)
        await self.origin.reading.consistent()
        if generation == self.origin.reading.generation:
            # Otherwise removals may have been rolled back, and the range is checked again.
            self.hold.released = max(self.hold.released, settled[1])


class UpstreamHolds:
    """The holds of an account's upstreams, updated when upstreams are declared, committed and removed."""

    def __init__(self, domain: Domain) -> None:
        self._domain = domain
        self._wanted: dict[str, list[Upstream]] = {}
        """The upstreams on streams of this engine, by their target."""
        self._kept: dict[Upstream, UpstreamHold] = {}
        """What each upstream still holds of its origin."""
        self._due: dict[str, set[Upstream]] = {}
        """Upstreams whose floor may have moved, by origin; an origin in here has a release task."""
        self._for_offline: list[tuple[str, Stream, Hold]] = []
        """Targets that could not be opened, each with its origin and the hold for it."""
        self._tasks = BackgroundTasks()
        self._closed = False

    def declare(self, target: str, upstreams: Iterable[Upstream]) -> None:
        """Hold messages for these upstreams of a target and no others."""
        if self._closed:
            return
        wanted = [upstream for upstream in upstreams if upstream.source.external is None]
        gone = [upstream for upstream in self._wanted.pop(target, []) if upstream not in wanted]
        if wanted:
            self._wanted[target] = wanted
        for upstream in wanted:
            self._hold(upstream)
        # New holds come before removed ones are released: a changed filter must not lose messages.
        for upstream in gone:
            self._withdraw(upstream)

    def opened(self, origin: Stream) -> None:
        """Add the holds on a stream that was opened."""
        for upstreams in self._wanted.values():
            for upstream in upstreams:
                if upstream.source.name == origin.name:
                    self._hold(upstream)
        self._hold_for_offline(origin)

    def closed(self, origin: Stream) -> None:
        """Remove the holds on a stream that was closed or deleted."""
        for upstream in [upstream for upstream, kept in self._kept.items() if kept.origin is origin]:
            del self._kept[upstream]
        self._for_offline = [kept for kept in self._for_offline if kept[1] is not origin]

    def committed(self, upstream: Upstream) -> None:
        """Release at the origin what the upstream's target has stored durably."""
        kept = self._kept.get(upstream)
        if kept is None or kept.origin.config.retention is Retention.LIMITS or self._closed:
            return
        origin = kept.origin.name
        if origin in self._due:
            self._due[origin].add(upstream)
            return
        self._due[origin] = {upstream}
        self._begin(self._release(origin))

    def retry(self) -> None:
        """Continue after a disk error, a rollback of removals or a change of retention."""
        self._forget_offline()
        for upstream, kept in list(self._kept.items()):
            if kept.origin.config.retention is not Retention.LIMITS and kept.is_due:
                self.committed(upstream)

    async def close(self) -> None:
        """Release nothing more; streams that close from now on are not being deleted."""
        self._closed = True
        await self._tasks.ended()

    def _hold(self, upstream: Upstream) -> None:
        origin = self._domain.find(upstream.source.name)
        if origin is None or upstream in self._kept:
            return
        self._kept[upstream] = UpstreamHold(upstream, origin)
        if upstream.durable_cursor.identity == origin.identity:
            self.committed(upstream)

    def _hold_for_offline(self, origin: Stream) -> None:
        """Hold everything for targets that could not be opened, since their cursors are unknown."""
        for config in self._domain.configs() if self._domain.offline else ():
            if config.name in self._domain.offline:
                sources = [*config.sources, *([config.mirror] if config.mirror else [])]
                if any(s.name == origin.name and s.external is None for s in sources):
                    hold = Hold()
                    origin.retention.holds.add(hold)
                    self._for_offline.append((config.name, origin, hold))

    def _forget_offline(self) -> None:
        """Remove the holds for offline targets that were deleted, or opened and have their own holds."""
        offline = self._domain.offline
        gone = [kept for kept in self._for_offline if kept[0] not in offline]
        self._for_offline = [kept for kept in self._for_offline if kept[0] in offline]
        for _, origin, hold in gone:
            origin.retention.holds.discard(hold)
            if origin.config.retention is not Retention.LIMITS:
                self._begin(self._drop(origin))

    def _withdraw(self, upstream: Upstream) -> None:
        kept = self._kept.pop(upstream, None)
        if kept is None:
            return
        kept.origin.retention.holds.discard(kept.hold)
        if kept.origin.config.retention is not Retention.LIMITS:
            self._begin(self._drop(kept.origin))

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        self._tasks.start(work, "release")

    async def _drop(self, origin: Stream) -> None:
        """Release what an origin kept for a removed hold only."""
        try:
            await origin.retention.drop_unneeded()
            await origin.publishing.settled()
        except (Error, OSError) as error:
            logger.warning("%s: cannot release messages that no hold needs: %s", origin.name, error)

    async def _release(self, origin: str) -> None:
        """Move the floors of an origin's holds one after the other, until none is due."""
        try:
            while due := self._due[origin]:
                self._due[origin] = set()
                for upstream in due:
                    kept = self._kept.get(upstream)
                    if kept is not None and not self._closed:
                        await kept.follow()
        except (Error, OSError) as error:
            logger.warning("%s: cannot release messages that its targets have copied: %s", origin, error)
        finally:
            del self._due[origin]
