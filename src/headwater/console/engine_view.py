"""Engines: readiness, disk, log, folds, compaction, journal, memory, and the last warnings."""

from __future__ import annotations

from typing import Any

from headwater.console.console_page import Query
from headwater.console.sampler import SampledSite, Sampler
from headwater.console.scraped_metrics import ScrapedMetrics
from headwater.console.site_states import site_states
from headwater.console.snapshot import Json
from headwater.console.stream_spans import span_of

MOST_WARNINGS = 50
_VALUES = {
    "disk_size": "headwater_disk_size_bytes",
    "disk_free": "headwater_disk_free_bytes",
    "memory": "process_resident_memory_bytes",
    "open_files": "process_open_fds",
    "max_files": "process_max_fds",
    "cpu": "process_cpu_seconds_total",
    "started": "process_start_time_seconds",
    "stored": "headwater_stored_messages_total",
    "stored_bytes": "headwater_stored_bytes_total",
    "refused": "headwater_refused_commits_total",
    "failed_folds": "headwater_failed_folds_total",
    "cache": "headwater_read_cache_bytes",
    "omitted": "headwater_metrics_omitted",
}
_TOTALS = {
    "log": "headwater_stream_log_bytes",
    "unfolded": "headwater_stream_unfolded_messages",
    "table_bytes": "headwater_stream_table_bytes",
    "table_files": "headwater_stream_table_files",
    "offline": "headwater_streams_offline",
    "failing": "headwater_streams_failing",
    "upstreams": "headwater_upstreams",
    "failing_upstreams": "headwater_upstreams_failing",
}
_MEANS = {
    "ack": "headwater_ack_latency_seconds",
    "commit": "headwater_commit_seconds",
    "fold": "headwater_fold_seconds",
    "compaction": "headwater_compaction_seconds",
    "loop": "headwater_event_loop_delay_seconds",
}


def engine_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return what each site's server and engine say about themselves."""
    engines = {name: _engine(site, query) for name, site in sampler.sites.items()}
    return {"sites": site_states(sampler), "engines": engines}


def _engine(site: SampledSite, query: Query) -> dict[str, Any]:
    snapshot = site.snapshot
    account = snapshot.account
    said: dict[str, Any] = {
        "error": snapshot.error,
        "server": snapshot.server,
        "address": site.site.connection.address,
        "monitoring": site.site.monitoring_url,
        "monitoring_error": snapshot.metrics_error,
        "domain": account.get("domain") or "",
        "account": {
            key: account[key] for key in ("streams", "consumers", "memory", "storage") if key in account
        },
        "limits": account.get("limits") or {},
        "readiness": dict(snapshot.readiness),
        "warnings": [dict(each) for each in snapshot.warnings[:MOST_WARNINGS]],
        "offline": dict(snapshot.offline),
        "pipelines": [pipeline_cells(each) for each in snapshot.pipelines],
        "plots": {
            name: [[round(at_s, 1), value] for at_s, value in site.history.plot(key, span_of(query))]
            for name, key in (
                ("rate", ("site", "rate")),
                ("memory", ("engine", "process_resident_memory_bytes")),
                ("disk", ("engine", "headwater_disk_free_bytes")),
            )
        },
    }
    return said | ({"numbers": engine_numbers(snapshot.metrics)} if snapshot.metrics else {})


def pipeline_cells(info: Json) -> dict[str, Any]:
    """Return what the page shows of a pipeline."""
    config = info["config"]
    shown = ("state", "problem", "lag", "rate", "batch_ms", "state_rows")
    named = {"name": config["name"], "inputs": list(config["inputs"]), "target": config["target"]}
    return named | {key: info.get(key) for key in shown}


def engine_numbers(metrics: ScrapedMetrics) -> dict[str, Any]:
    """Return the engine's own numbers; those that it does not report are missing."""
    numbers: dict[str, Any] = {key: metrics.value(name) for key, name in _VALUES.items()}
    numbers |= {key: metrics.total(name) for key, name in _TOTALS.items() if name in set(metrics)}
    for key, name in _MEANS.items():
        count = metrics.value(f"{name}_count") or 0
        numbers[f"{key}_count"] = count
        numbers[f"{key}_mean"] = (metrics.value(f"{name}_sum") or 0) / count if count else None
    phases = metrics.by_label("headwater_engine_phase", "phase")
    numbers["phase"] = next((phase for phase, value in phases.items() if value), None)
    numbers["version"] = next((seen.get("version") for seen, _ in metrics.all("headwater_build_info")), None)
    numbers["journal"] = {
        labels.get("peer") or labels.get("name") or str(place): value
        for place, (labels, value) in enumerate(metrics.all("headwater_journal_peer_lag"))
    }
    return {key: value for key, value in numbers.items() if value is not None}
