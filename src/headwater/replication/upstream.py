"""One upstream of one stream: what it copies, how far it has come, and how it fares."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.errors import ApiError
from headwater.model.cursor import Cursor
from headwater.model.stream import StreamConfig
from headwater.model.upstream import StreamSource, StreamSourceInfo
from headwater.stream.stream import Stream

LEASE_NS = 120_000_000_000
"""How long a piece of work may be under way before it is handed out again."""
STALLED_NS = 20_000_000_000
"""An upstream that lags and has not moved for so long shows an error."""


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
    leased_until_ns: int = 0
    under_way: int = 0
    """How many pieces of work have been handed out and not come back."""
    gap: int = 0
    """How many sequences of the origin were gone before they could be copied."""
    gap_before: int = 0
    """The origin's first sequence when the last gap was noted."""
    identity: str = ""
    """The origin as it was last seen."""
    failures: int = 0
    next_try_ns: int = 0
    looked_ns: int = 0
    """When the origin was last looked at."""
    copied: int = 0

    @property
    def id(self) -> str:
        """Return the name that its cursor has in the target."""
        return self.source.index_name

    @property
    def cursor(self) -> Cursor:
        """Return how far it has been copied."""
        return Cursor.decode(self.target.copying.cursor(self.id))

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

    def failed(self, error: ApiError, now_ns: int) -> None:
        """Take note of an error; the next attempt comes later, but before long."""
        self.error = error
        self.failures += 1
        self.next_try_ns = now_ns + min(500_000_000 * 2 ** min(self.failures, 5), 10_000_000_000)

    def handed_out(self, pieces: int, now_ns: int) -> None:
        """Take note that pieces of work are under way."""
        self.under_way = pieces
        self.leased_until_ns = now_ns + LEASE_NS

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

    def moved(self, now_ns: int) -> None:
        """Take note that it has come further, or is at the end."""
        self.moved_ns = now_ns
        self.failures = 0
        self.error = None

    def info(self, now_ns: int) -> StreamSourceInfo:
        """Return how it fares."""
        return StreamSourceInfo(
            name=self.source.name,
            external=self.source.external,
            lag=self.lag,
            seq=0 if self.mirrored else self.cursor.seq,
            active_ns=now_ns - self.seen_ns if self.seen_ns else -1,
            error=self.error,
            filter_subject=self.source.filter_subject,
            subject_transforms=self.source.subject_transforms,
        )


def upstreams_of(stream: Stream, config: StreamConfig) -> list[Upstream]:
    """Return the upstreams that a config declares."""
    if config.mirror is not None:
        return [Upstream(stream, config.mirror, mirrored=True)]
    return [Upstream(stream, source, mirrored=False) for source in config.sources if source is not None]
