"""The numbers of sources and mirrors, and the families that show them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headwater.model.progress import Phase, Progress
from headwater.monitor.exposition import Exposition, Family, joined, labels, samples
from headwater.upstreams.upstream import Upstream


class UpstreamNumbers(NamedTuple):
    """One source or mirror."""

    exporter_labels: str
    """Stream and origin as prometheus-nats-exporter names them."""
    is_mirror: bool
    lag: int
    seen_ns: int
    """The time since the last contact with the origin; negative if there was none."""
    is_failing: bool
    progress: Progress


_GAUGES: tuple[Family[UpstreamNumbers], ...] = (
    Family(
        "headwater_upstream_lag",
        "Messages of the origin that are not copied yet; absent while the origin does not answer.",
        lambda row: row.lag if row.progress.is_known else None,
    ),
    Family(
        "headwater_upstream_behind_seconds",
        "Age of the oldest message that is not copied yet; absent while it is unknown.",
        lambda row: row.progress.behind_s,
    ),
    Family(
        "headwater_upstream_reachable",
        "1 if the last check of the origin succeeded, else 0.",
        lambda row: row.progress.is_known,
    ),
    Family(
        "headwater_upstream_last_seen_seconds",
        "Seconds since the origin last answered; absent if it never did.",
        lambda row: row.seen_ns / 1e9 if row.seen_ns >= 0 else None,
    ),
    Family(
        "headwater_upstream_failing",
        "1 while an error or a stall is shown, else 0.",
        lambda row: row.is_failing,
    ),
    Family(
        "headwater_upstream_failures",
        "Failed attempts in a row.",
        lambda row: row.progress.failures,
    ),
    Family(
        "headwater_upstream_messages_per_second",
        "Copied messages a second, lately.",
        lambda row: row.progress.msgs_per_s,
    ),
)
_COUNTERS: tuple[Family[UpstreamNumbers], ...] = (
    Family(
        "headwater_upstream_copied_messages",
        "Messages copied since the engine started.",
        lambda row: row.progress.copied_msgs,
    ),
    Family(
        "headwater_upstream_copied_bytes",
        "Bytes copied since the engine started.",
        lambda row: row.progress.copied_bytes,
    ),
    Family(
        "headwater_upstream_dead_letters",
        "Messages that a row pipeline failed on since the engine started; absent without one.",
        lambda row: row.progress.dead_letters if row.progress.is_piped else None,
    ),
    Family(
        "headwater_upstream_gaps",
        "Gaps: ranges that the origin removed before they were copied.",
        lambda row: row.progress.gaps.count,
    ),
    Family(
        "headwater_upstream_gap_sequences",
        "Sequences in these gaps.",
        lambda row: row.progress.gaps.sequences,
    ),
    Family(
        "headwater_upstream_restarts",
        "How often the origin was found re-created.",
        lambda row: row.progress.gaps.restarts,
    ),
)


def upstream_numbers(upstream: Upstream, of_stream: str, now_ns: int) -> tuple[str, UpstreamNumbers]:
    """Return an upstream's labels and its numbers now; `of_stream` are the labels of its stream."""
    info, source = upstream.info(now_ns), upstream.source
    kind = "mirror" if upstream.mirrored else "source"
    api = source.external.api if source.external is not None else ""
    filters = ",".join(upstream.filters)
    own = labels(kind=kind, origin=source.name, origin_api=api, filter=filters)
    exporters = labels(**{f"{kind}_name": source.name, f"{kind}_api": api, "filter": filters})
    progress = info.progress
    assert progress is not None
    return joined(of_stream, own), UpstreamNumbers(
        joined(of_stream, exporters),
        is_mirror=upstream.mirrored,
        lag=info.lag,
        seen_ns=info.active_ns,
        is_failing=info.error is not None,
        progress=progress,
    )


def write_upstreams(exposition: Exposition, rows: Sequence[tuple[str, UpstreamNumbers]]) -> None:
    """Write the families of all upstreams."""
    for kind in ("source", "mirror"):
        some = [row for _, row in rows if row.is_mirror == (kind == "mirror")]
        known = [(row.exporter_labels, row.lag) for row in some if row.progress.is_known]
        exposition.gauge(f"jetstream_stream_{kind}_lag", f"Messages that the {kind} has not copied.", known)
        seen = [(row.exporter_labels, row.seen_ns) for row in some if row.seen_ns >= 0]
        name = f"jetstream_stream_{kind}_active_duration_ns"
        exposition.gauge(name, "Nanoseconds since the origin last answered.", seen)
    for family in _GAUGES:
        exposition.gauge(family.name, family.help, samples(family, rows))
    phases = [
        (joined(own, labels(phase=str(phase))), numbers.progress.phase is phase)
        for own, numbers in rows
        for phase in Phase
    ]
    exposition.gauge("headwater_upstream_phase", "1 for the phase that the upstream is in.", phases)
    for family in _COUNTERS:
        exposition.counter(family.name, family.help, samples(family, rows))
