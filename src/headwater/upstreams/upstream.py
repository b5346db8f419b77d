"""One upstream of one stream: what it copies, how far it has come, and how it fares."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from headwater.errors import ApiError, api_error
from headwater.model.cursor import Cursor
from headwater.model.gaps import Gaps, gaps_name
from headwater.model.progress import Phase, Progress
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource, StreamSourceInfo
from headwater.stream.stream import Stream
from headwater.upstreams.pace import Pace

logger = logging.getLogger(__name__)

LEASE_NS = 60_000_000_000
"""How long a piece of work may be under way before it is handed out again."""
FARTHEST_TRY_NS = 15_000_000_000
"""No attempt is put off for longer than that."""
STALLED_NS = 20_000_000_000
"""An upstream that lags and has not moved for so long shows an error."""
_TOLD = 16
"""How many different errors are told of until it goes on."""


@dataclass(eq=False)
class Upstream:
    """A source or the mirror of a target; runs on the event loop."""

    target: Stream
    source: StreamSource
    mirrored: bool
    error: ApiError | None = None
    lag: int = 0
    seen_ns: int = 0
    """When the origin was last heard of; 0 for never."""
    moved_ns: int = 0
    """When the cursor last moved, or the upstream last had nothing to copy."""
    lagging_ns: int = 0
    """When it was first seen that there is something to copy; 0 while there is nothing."""
    counted_seq: int = 0
    """The origin's sequence after which the lag was counted."""
    in_sight: bool = False
    """Whether the last look at the origin succeeded: if not, the lag is not known."""
    leased_until_ns: int = 0
    handed_ns: int = 0
    """When work on it was last handed out."""
    quiet_looks: int = 0
    """How many looks in a row found nothing new at an origin elsewhere."""
    under_way: int = 0
    """How many pieces of work have been handed out and not come back."""
    identity: str = ""
    """The origin as it was last seen."""
    failures: int = 0
    next_try_ns: int = 0
    looked_ns: int = 0
    """When the origin was last looked at."""
    failing_ns: int = 0
    """Since when there is an error; 0 while there is none."""
    is_stalled: bool = False
    pace: Pace = field(default_factory=Pace)
    _told: set[str] = field(default_factory=set)

    @property
    def id(self) -> str:
        """Return the name that its cursor has in the target."""
        return self.source.index_name

    @property
    def cursor(self) -> Cursor:
        """Return how far it has been copied."""
        return Cursor.decode(self.target.replica.cursor(self.id))

    @property
    def durable_cursor(self) -> Cursor:
        """Return how far it has durably been copied: only that may be released at the origin."""
        return Cursor.decode(self.target.replica.durable_cursor(self.id))

    @property
    def filters(self) -> tuple[str, ...]:
        """Return the subjects it wants of the origin; none means all."""
        if self.source.subject_transforms:
            return tuple(transform.src or ">" for transform in self.source.subject_transforms)
        return (self.source.filter_subject,) if self.source.filter_subject else ()

    @property
    def transforms(self) -> tuple[tuple[str, str], ...]:
        """Return how it rewrites subjects."""
        return tuple((t.src or ">", t.dest) for t in self.source.subject_transforms)

    def source_header(self, identity: str) -> tuple[str, str, str, str] | None:
        """Return what the header of a sourced message says besides its sequence and subject."""
        if self.mirrored:
            return None
        name, filters, destinations = self.id.split(" ", 2)
        return name, filters, destinations, identity

    @property
    def gaps(self) -> Gaps:
        """Return what was gone at the origin before it could be copied."""
        return Gaps.decode(self.target.replica.cursor(gaps_name(self.id)))

    def failure(self, why: str) -> ApiError:
        """Return the error that shows why it cannot be copied."""
        row = "mirror_consumer_setup_failed" if self.mirrored else "source_consumer_setup_failed"
        return api_error(row, err=why)

    def failed(self, error: ApiError, now_ns: int) -> None:
        """Take note of an error; the next attempt comes later, but before long."""
        self.is_stalled = False
        self._show(error, now_ns)
        self.failures += 1
        self.next_try_ns = now_ns + min(500_000_000 * 2 ** min(self.failures, 5), 10_000_000_000)

    def stalled(self, why: str, now_ns: int) -> None:
        """Take note that nothing was copied for too long, where there is something to copy and no error."""
        # An idle spell is no stall: what came after it has waited only since then.
        waited_ns = now_ns - max(self.moved_ns, self.lagging_ns)
        if waited_ns > STALLED_NS:
            seconds = waited_ns // 1_000_000_000
            self._stall(f"nothing was copied for {seconds} s: {why}", why, now_ns)

    def cannot_move(self, problem: str, now_ns: int) -> None:
        """Take note that nothing can be copied, where there is something to copy: it is known why."""
        self._stall(f"nothing is copied: {problem}", problem, now_ns)

    def _stall(self, shown: str, why: str, now_ns: int) -> None:
        has_other_error = self.error is not None and not self.is_stalled
        if self.lag and not has_other_error:
            self.is_stalled = True
            self._show(self.failure(shown), now_ns, why)

    def _show(self, error: ApiError, now_ns: int, why: str = "") -> None:
        """Show an error, and tell of it in the log the first time that it is for this reason."""
        self.error = error
        self.failing_ns = self.failing_ns or now_ns
        reason = why or error.description
        if reason not in self._told and len(self._told) < _TOLD:
            self._told.add(reason)
            logger.warning("%s: %s", self, error.description)

    def __str__(self) -> str:
        kind = "mirror" if self.mirrored else "source"
        return f"stream {self.target.name!r}, {kind} {self.source.name!r}"

    def handed_out(self, pieces: int, now_ns: int) -> None:
        """Take note that pieces of work are under way."""
        self.under_way = pieces
        self.handed_ns = now_ns
        self.pace.handed_out(now_ns)

    def lease(self, steady_ns: int) -> None:
        """Have nobody else work on it for a while, by a clock that is never set back."""
        self.leased_until_ns = steady_ns + LEASE_NS

    def is_due(self, now_ns: int) -> bool:
        """Return whether it may be tried again; a clock that was set back does not hold it up."""
        return not 0 < self.next_try_ns - now_ns <= FARTHEST_TRY_NS

    def take_back(self) -> None:
        """Take note that nobody works on it any more."""
        self.under_way = 0
        self.leased_until_ns = 0

    def came_back(self) -> None:
        """Take note that a piece of work is done, well or not."""
        self.under_way -= 1
        if self.under_way <= 0:
            self.leased_until_ns = 0

    def heard_of(self, now_ns: int) -> None:
        """Take note that the origin answers."""
        self.seen_ns = now_ns
        self.in_sight = True

    def lost_sight(self) -> None:
        """Take note that the last look at the origin failed."""
        self.in_sight = False

    def look_soon(self, pause_ns: int) -> None:
        """Have the origin looked at so long after the last look, unless that failed: then it is retried."""
        if self.error is None:
            self.next_try_ns = min(self.next_try_ns, self.looked_ns + pause_ns)

    def measured(self, lag: int, after_seq: int, now_ns: int) -> None:
        """Take note of how many messages of the origin after a sequence are still to be copied."""
        self.lag = lag
        self.counted_seq = after_seq
        self.lagging_ns = (self.lagging_ns or now_ns) if lag else 0

    def took(self, count: int, through_seq: int) -> None:
        """Take note that messages were copied; those that the lag was counted without change nothing."""
        if through_seq > self.counted_seq:
            self.counted_seq = through_seq
            self.lag = max(self.lag - count, 0)

    def moved(self, now_ns: int) -> None:
        """Take note that it has come further, or is at the end."""
        self.moved_ns = now_ns
        self.lagging_ns = self.lagging_ns if self.lag else 0
        self.failures = self.failing_ns = 0
        self.is_stalled = False
        self.error = None
        if self._told:
            self._told.clear()
            logger.info("%s goes on", self)

    def info(self, now_ns: int) -> StreamSourceInfo:
        """Return how it fares."""
        return StreamSourceInfo(
            name=self.source.name,
            external=self.source.external,
            lag=self.lag,
            seq=0 if self.mirrored else self.durable_cursor.seq,
            # No time at all would read as never.
            active_ns=max(now_ns - self.seen_ns, 1) if self.seen_ns else -1,
            error=self.error,
            filter_subject=self.source.filter_subject,
            subject_transforms=self.source.subject_transforms,
            progress=self.progress(now_ns),
        )

    def progress(self, now_ns: int) -> Progress:
        """Return how it comes along."""
        pace, is_known = self.pace, self.in_sight
        return Progress(
            is_known=is_known,
            phase=self.phase(now_ns),
            seq=self.durable_cursor.seq,
            origin_last_seq=pace.origin_last_seq,
            began_seq=pace.began_seq,
            msgs_per_s=pace.msgs.at(now_ns),
            bytes_per_s=pace.size.at(now_ns),
            behind_s=pace.behind_s(self.lag, now_ns) if is_known else None,
            caught_up_in_s=pace.caught_up_in_s(self.lag, now_ns) if is_known else None,
            copied_msgs=pace.copied_msgs,
            copied_bytes=pace.copied_bytes,
            committed_ns=pace.committed_ns,
            seen_ns=self.seen_ns,
            failures=self.failures,
            failing_ns=self.failing_ns,
            next_try_ns=self.next_try_ns if self.error is not None else 0,
            gaps=self.gaps,
        )

    def phase(self, now_ns: int) -> Phase:
        """Return what it is at."""
        if self.error is not None:
            return Phase.STALLED if self.is_stalled else Phase.RETRYING
        if not self.seen_ns:
            return Phase.STARTING
        return Phase.CATCHING_UP if self.lag and not self.pace.is_live(now_ns) else Phase.LIVE


def upstreams_of(stream: Stream, config: StreamConfig) -> list[Upstream]:
    """Return the upstreams that a config declares."""
    if config.mirror is not None:
        return [Upstream(stream, config.mirror, mirrored=True)]
    return [Upstream(stream, source, mirrored=False) for source in config.sources if source is not None]
