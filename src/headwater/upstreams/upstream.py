"""One upstream of one stream: what it copies, how far it is, and its status."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from headwater.backoff import wait_s
from headwater.errors import ApiError, SettingsError, api_error
from headwater.model.cursor import Cursor
from headwater.model.gaps import Gaps, gaps_name
from headwater.model.progress import Phase, Progress
from headwater.model.row_pipeline import RowPipeline, pipeline_for, pipelines_in
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource, StreamSourceInfo
from headwater.stream.stream import Stream
from headwater.upstreams.pace import Pace

logger = logging.getLogger(__name__)

LEASE_NS = 60_000_000_000
"""How long a range may be in progress before it is handed out again."""
FIRST_RETRY_S = 1.0
LONGEST_RETRY_S = 10.0
FARTHEST_TRY_NS = 15_000_000_000
"""No attempt is delayed for longer than this."""
STALLED_NS = 20_000_000_000
"""An upstream that lags and has not moved for this long shows an error."""
_MOST_LOGGED = 16
"""How many different errors are logged until it moves again."""


@dataclass(eq=False)
class Upstream:
    """A source or the mirror of a target; runs on the event loop."""

    target: Stream
    source: StreamSource
    mirrored: bool
    pipeline: RowPipeline | None = None
    """The SQL that its messages pass through; None if they are copied as they are."""
    problem: str = ""
    """Why nothing can be copied as it is declared; empty if it can."""
    dead_letters: int = 0
    """How many messages its pipeline has failed on since the engine started."""
    error: ApiError | None = None
    lag: int = 0
    seen_ns: int = 0
    """When the origin last answered; 0 for never."""
    moved_ns: int = 0
    """When the cursor last moved, or the upstream last had nothing to copy."""
    lagging_ns: int = 0
    """When there was first something to copy; 0 while there is nothing."""
    counted_seq: int = 0
    """The origin's sequence after which the lag was counted."""
    is_reachable: bool = False
    """Whether the last check of the origin succeeded: if not, the lag is unknown."""
    leased_until_ns: int = 0
    """Until when, in steady time, no other replicator is given work on it."""
    handed_ns: int = 0
    """When work on it was last handed out."""
    quiet_looks: int = 0
    """How many checks in a row found nothing new at a remote origin."""
    open_ranges: int = 0
    """How many ranges have been handed out and have not returned."""
    identity: str = ""
    """The identity of the origin when it was last seen."""
    failures: int = 0
    next_try_ns: int = 0
    """When the origin is checked again after a failure or a quiet check."""
    looked_ns: int = 0
    """When the origin was last checked."""
    looked_mark: int = 0
    """Its mark among the pending ones at that time; a later mark says that the origin grew."""
    failing_ns: int = 0
    """Since when there is an error; 0 while there is none."""
    is_stalled: bool = False
    """Whether the error only says that nothing moves, without another cause."""
    pace: Pace = field(default_factory=Pace)
    _logged: set[str] = field(default_factory=set)
    """The errors that were logged since it last moved."""

    @property
    def id(self) -> str:
        """Return the name of its cursor in the target."""
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
        """Return the origin's subjects that it copies; empty means all."""
        if self.source.subject_transforms:
            return tuple(transform.src or ">" for transform in self.source.subject_transforms)
        return (self.source.filter_subject,) if self.source.filter_subject else ()

    @property
    def transforms(self) -> tuple[tuple[str, str], ...]:
        """Return its subject transforms."""
        return tuple((t.src or ">", t.dest) for t in self.source.subject_transforms)

    def source_header(self, identity: str) -> tuple[str, str, str, str] | None:
        """Return the fields of a sourced message's header besides its sequence and subject."""
        if self.mirrored:
            return None
        name, filters, destinations = self.id.split(" ", 2)
        return name, filters, destinations, identity

    @property
    def gaps(self) -> Gaps:
        """Return what the origin removed before it could be copied."""
        return Gaps.decode(self.target.replica.cursor(gaps_name(self.id)))

    def failure(self, why: str) -> ApiError:
        """Return the error that shows why it cannot be copied."""
        row = "mirror_consumer_setup_failed" if self.mirrored else "source_consumer_setup_failed"
        return api_error(row, err=why)

    def failed(self, error: ApiError, now_ns: int) -> None:
        """Record an error; the next attempt is delayed, with backoff."""
        self.is_stalled = False
        self._show(error, now_ns)
        self.failures += 1
        self.next_try_ns = now_ns + int(wait_s(self.failures, FIRST_RETRY_S, LONGEST_RETRY_S) * 1e9)

    def stalled(self, why: str, now_ns: int) -> None:
        """Record that nothing was copied for too long although there is something to copy and no error."""
        # An idle period is no stall: what arrived after it has waited only since then.
        waited_ns = now_ns - max(self.moved_ns, self.lagging_ns)
        if waited_ns > STALLED_NS:
            seconds = waited_ns // 1_000_000_000
            self._stall(f"nothing was copied for {seconds} s: {why}", why, now_ns)

    def cannot_move(self, problem: str, now_ns: int) -> None:
        """Record that nothing can be copied although there is something to copy, for a known reason."""
        self._stall(f"nothing is copied: {problem}", problem, now_ns)

    def _stall(self, shown: str, why: str, now_ns: int) -> None:
        has_other_error = self.error is not None and not self.is_stalled
        if self.lag and not has_other_error:
            self.is_stalled = True
            self._show(self.failure(shown), now_ns, why)

    def _show(self, error: ApiError, now_ns: int, why: str = "") -> None:
        """Show an error, and log it the first time it has this reason."""
        self.error = error
        self.failing_ns = self.failing_ns or now_ns
        reason = why or error.description
        if reason not in self._logged and len(self._logged) < _MOST_LOGGED:
            self._logged.add(reason)
            logger.warning("%s: %s", self, error.description)

    def __str__(self) -> str:
        kind = "mirror" if self.mirrored else "source"
        return f"stream {self.target.name!r}, {kind} {self.source.name!r}"

    @property
    def log_fields(self) -> dict[str, str]:
        """Return the fields of a JSON log line that names this upstream."""
        return {"stream": self.target.name, "source": self.source.name}

    def handed_out(self, pieces: int, now_ns: int) -> None:
        """Record that ranges were handed out."""
        self.open_ranges = pieces
        self.handed_ns = now_ns
        self.pace.handed_out(now_ns)

    def lease(self, steady_ns: int) -> None:
        """Give no other replicator work on it for a while, by a clock that never steps."""
        self.leased_until_ns = steady_ns + LEASE_NS

    def is_due(self, now_ns: int) -> bool:
        """Return whether it may be tried again; a clock that was set back does not delay it."""
        return not 0 < self.next_try_ns - now_ns <= FARTHEST_TRY_NS

    def revoke(self) -> None:
        """Record that no replicator copies it any more."""
        self.open_ranges = 0
        self.leased_until_ns = 0

    def range_returned(self) -> None:
        """Record that a range has returned, successful or not."""
        self.open_ranges -= 1
        if self.open_ranges <= 0:
            self.leased_until_ns = 0

    def origin_answered(self, now_ns: int) -> None:
        """Record that the origin answers."""
        self.seen_ns = now_ns
        self.is_reachable = True

    def origin_failed(self) -> None:
        """Record that the last check of the origin failed."""
        self.is_reachable = False

    def look_soon(self, pause_ns: int) -> None:
        """Have the origin checked this long after the last check; after a failure backoff applies."""
        if self.error is None:
            self.next_try_ns = min(self.next_try_ns, self.looked_ns + pause_ns)

    def measured(self, lag: int, after_seq: int, now_ns: int) -> None:
        """Record how many messages of the origin after a sequence are still to be copied."""
        self.lag = lag
        self.counted_seq = after_seq
        self.lagging_ns = (self.lagging_ns or now_ns) if lag else 0

    def took(self, count: int, through_seq: int) -> None:
        """Record that messages were copied; those that the lag did not count do not change it."""
        if through_seq > self.counted_seq:
            self.counted_seq = through_seq
            self.lag = max(self.lag - count, 0)

    def moved(self, now_ns: int) -> None:
        """Record that the cursor moved, or that it is at the end."""
        self.moved_ns = now_ns
        self.lagging_ns = self.lagging_ns if self.lag else 0
        self.failures = self.failing_ns = 0
        self.is_stalled = False
        self.error = None
        if self._logged:
            self._logged.clear()
            logger.info("%s: copying again", self)

    def info(self, now_ns: int, waiting: str = "") -> StreamSourceInfo:
        """Return its status for stream info."""
        return StreamSourceInfo(
            name=self.source.name,
            external=self.source.external,
            lag=self.lag,
            seq=0 if self.mirrored else self.durable_cursor.seq,
            # Zero would be read as never.
            active_ns=max(now_ns - self.seen_ns, 1) if self.seen_ns else -1,
            error=self.error,
            filter_subject=self.source.filter_subject,
            subject_transforms=self.source.subject_transforms,
            progress=self.progress(now_ns, waiting if self.lag and self.error is None else ""),
        )

    def progress(self, now_ns: int, waiting: str = "") -> Progress:
        """Return its progress; `waiting` is what keeps a replicator from copying."""
        pace, is_known = self.pace, self.is_reachable
        return Progress(
            is_known=is_known,
            phase=self.phase(now_ns),
            waiting=waiting,
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
            is_piped=self.pipeline is not None,
            dead_letters=self.dead_letters,
        )

    def phase(self, now_ns: int) -> Phase:
        """Return its phase."""
        if self.error is not None:
            return Phase.STALLED if self.is_stalled else Phase.RETRYING
        if not self.seen_ns:
            return Phase.STARTING
        return Phase.CATCHING_UP if self.lag and not self.pace.is_live(now_ns) else Phase.LIVE


def upstreams_of(stream: Stream, config: StreamConfig) -> list[Upstream]:
    """Return the upstreams that a config declares."""
    problem = ""
    pipelines: tuple[RowPipeline, ...] = ()
    try:
        pipelines = pipelines_in(config.metadata)
    except SettingsError as error:
        # Another release wrote it. Messages must not be copied without their pipeline.
        problem = str(error)

    def upstream(source: StreamSource, *, mirrored: bool) -> Upstream:
        return Upstream(stream, source, mirrored, pipeline_for(pipelines, source.name), problem)

    if config.mirror is not None:
        return [upstream(config.mirror, mirrored=True)]
    return [upstream(source, mirrored=False) for source in config.sources if source is not None]
