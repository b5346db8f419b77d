"""The numbers of what an engine uses besides its streams: bucket, journal, replicator, NATS Streaming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.monitor.exposition import Exposition, Sample


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


def write_bucket(exposition: Exposition, bucket: BucketNumbers | None) -> None:
    """Write the requests to a bucket; nothing without one."""
    if bucket is None:
        return
    exposition.counter(
        "headwater_bucket_requests", "Requests of the engine to its bucket.", [("", bucket.requests)]
    )
    exposition.counter(
        "headwater_bucket_failures", "Requests that found the bucket unreachable.", [("", bucket.failures)]
    )
    exposition.gauge(
        "headwater_bucket_reachable", "1 if the last request was answered.", [("", bucket.is_reachable)]
    )
    exposition.gauge(
        "headwater_bucket_cache_bytes",
        "What is cached of the bucket on the store's disk.",
        [("", bucket.cached_bytes)],
    )


def write_journal(exposition: Exposition, journal: JournalNumbers | None) -> None:
    """Write how far the journal is; nothing without one."""
    if journal is None:
        return
    exposition.gauge(
        "headwater_journal_unshipped_bytes",
        "Changes that the journal does not have yet.",
        [("", journal.unshipped_bytes)],
    )
    exposition.gauge(
        "headwater_journal_bytes", "Size of the records that the journal keeps.", [("", journal.kept_bytes)]
    )
    exposition.gauge(
        "headwater_journal_failing", "1 if the last append to it failed.", [("", journal.is_failing)]
    )


def write_replicator(exposition: Exposition, replicator: ReplicatorNumbers | None) -> None:
    """Write whether the replicator runs; nothing if the engine does not start it."""
    if replicator is None:
        return
    exposition.gauge(
        "headwater_replicator_running", "1 if the replicator runs.", [("", replicator.is_running)]
    )
    exposition.counter(
        "headwater_replicator_restarts",
        "How often the replicator ended and was started again.",
        [("", replicator.restarts)],
    )
    exposition.gauge(
        "headwater_replicator_failing", "1 if it has a problem; see /readyz.", [("", replicator.is_failing)]
    )


_STAN_GAUGES = (
    ("headwater_stan_clients", "Clients of NATS Streaming.", "clients"),
    ("headwater_stan_subscriptions", "Their subscriptions.", "subscriptions"),
    ("headwater_stan_channels", "Channels.", "channels"),
)
_STAN_COUNTERS = (
    ("headwater_stan_in_messages", "Messages that its clients published.", "in_messages"),
    ("headwater_stan_in_bytes", "Bytes that its clients published.", "in_bytes"),
    ("headwater_stan_out_messages", "Messages that it sent to clients.", "out_messages"),
    ("headwater_stan_out_bytes", "Bytes that it sent to clients.", "out_bytes"),
)


def write_stan(exposition: Exposition, rows: Sequence[tuple[str, StanNumbers]]) -> None:
    """Write the numbers of NATS Streaming, by account; nothing where it is not served."""

    def of(field: str) -> list[Sample]:
        return [(labels, getattr(numbers, field)) for labels, numbers in rows]

    for name, help, field in _STAN_GAUGES:
        exposition.gauge(name, help, of(field))
    for name, help, field in _STAN_COUNTERS:
        exposition.counter(name, help, of(field))
