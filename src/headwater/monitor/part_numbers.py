"""The numbers of what an engine uses besides its streams: bucket, journal, replicator, NATS Streaming."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Generic, NamedTuple

from headwater.monitor.exposition import Exposition, Family, Numbers, samples


class BucketNumbers(NamedTuple):
    """The bucket with the tables."""

    requests: int
    failures: int
    cached_bytes: int
    """What is cached of it on the disk of the store."""
    is_reachable: bool


class JournalNumbers(NamedTuple):
    """The journal of the store."""

    unshipped_bytes: int
    """Changes that it does not have yet: none of them is acknowledged."""
    kept_bytes: int
    is_failing: bool


class ReplicatorNumbers(NamedTuple):
    """The replicator that the engine starts."""

    is_running: bool
    restarts: int
    is_failing: bool
    """Whether it has a problem; the page of readiness says which one."""


class StanNumbers(NamedTuple):
    """The NATS Streaming server of one account."""

    clients: int
    subscriptions: int
    channels: int
    in_messages: int
    in_bytes: int
    out_messages: int
    out_bytes: int


class PartFamilies(NamedTuple, Generic[Numbers]):
    """The families of one part of the engine."""

    gauges: Sequence[Family[Numbers]] = ()
    counters: Sequence[Family[Numbers]] = ()

    def write(self, exposition: Exposition, rows: Sequence[tuple[str, Numbers]]) -> None:
        """Write the families, with a sample for each row; nothing without rows."""
        for family in self.gauges:
            exposition.gauge(family.name, family.help, samples(family, rows))
        for family in self.counters:
            exposition.counter(family.name, family.help, samples(family, rows))

    def write_one(self, exposition: Exposition, numbers: Numbers | None) -> None:
        """Write the families of a part that an engine has once, or not at all."""
        self.write(exposition, [] if numbers is None else [("", numbers)])


BUCKET: PartFamilies[BucketNumbers] = PartFamilies(
    gauges=(
        Family(
            "headwater_bucket_reachable", "1 if the last request was answered.", attrgetter("is_reachable")
        ),
        Family(
            "headwater_bucket_cache_bytes",
            "What is cached of the bucket on the store's disk.",
            attrgetter("cached_bytes"),
        ),
    ),
    counters=(
        Family("headwater_bucket_requests", "Requests of the engine to its bucket.", attrgetter("requests")),
        Family(
            "headwater_bucket_failures", "Requests that found the bucket unreachable.", attrgetter("failures")
        ),
    ),
)
JOURNAL: PartFamilies[JournalNumbers] = PartFamilies(
    gauges=(
        Family(
            "headwater_journal_unshipped_bytes",
            "Changes that the journal does not have yet.",
            attrgetter("unshipped_bytes"),
        ),
        Family(
            "headwater_journal_bytes", "Size of the records that the journal keeps.", attrgetter("kept_bytes")
        ),
        Family("headwater_journal_failing", "1 if the last append to it failed.", attrgetter("is_failing")),
    )
)
REPLICATOR: PartFamilies[ReplicatorNumbers] = PartFamilies(
    gauges=(
        Family("headwater_replicator_running", "1 if the replicator runs.", attrgetter("is_running")),
        Family(
            "headwater_replicator_failing", "1 if it has a problem; see /readyz.", attrgetter("is_failing")
        ),
    ),
    counters=(
        Family(
            "headwater_replicator_restarts",
            "How often the replicator ended and was started again.",
            attrgetter("restarts"),
        ),
    ),
)
STAN: PartFamilies[StanNumbers] = PartFamilies(
    gauges=(
        Family("headwater_stan_clients", "Clients of NATS Streaming.", attrgetter("clients")),
        Family("headwater_stan_subscriptions", "Their subscriptions.", attrgetter("subscriptions")),
        Family("headwater_stan_channels", "Channels.", attrgetter("channels")),
    ),
    counters=(
        Family(
            "headwater_stan_in_messages", "Messages that its clients published.", attrgetter("in_messages")
        ),
        Family("headwater_stan_in_bytes", "Bytes that its clients published.", attrgetter("in_bytes")),
        Family(
            "headwater_stan_out_messages", "Messages that it sent to clients.", attrgetter("out_messages")
        ),
        Family("headwater_stan_out_bytes", "Bytes that it sent to clients.", attrgetter("out_bytes")),
    ),
)
