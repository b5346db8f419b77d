"""One stream: configuration, state, limits and how full they are, plots, table, copies and consumers."""

from __future__ import annotations

import time
from typing import Any

from headwater.console.console_page import Query
from headwater.console.consumers_view import consumer_row
from headwater.console.health import stream_health
from headwater.console.map_graph import copies_of
from headwater.console.sampler import SampledSite, Sampler
from headwater.console.site_states import site_states
from headwater.console.snapshot import Json
from headwater.console.stream_spans import span_of
from headwater.console.upstreams_view import upstream_rows
from headwater.errors import Error
from headwater.model.times import SECOND, parse_time

PLOTTED = ("rate", "bytes", "messages", "lag", "pending")
MOST_CONSUMERS = 200
_TABLE_METRICS = {
    "files": "headwater_stream_table_files",
    "bytes": "headwater_stream_table_bytes",
    "log": "headwater_stream_log_bytes",
    "unfolded": "headwater_stream_unfolded_messages",
    "deleted": "headwater_stream_deleted_messages",
}


def stream_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return everything about one stream that was read; `Error` if there is no such stream."""
    site, name = sampler.site(query["site"]), query["stream"]
    info = site.snapshot.streams.get(name)
    if info is None:
        why = site.snapshot.offline.get(name) or site.snapshot.error
        raise Error(f'there is no stream "{name}" at {query["site"]}' + (f": {why}" if why else ""))
    span_s = span_of(query)
    health = stream_health(info, site.snapshot)
    consumers = site.snapshot.consumers.get(name, ())
    return {
        "title": name,
        "site": site.site.name,
        "name": name,
        "sites": site_states(sampler),
        "health": health.level,
        "why": health.why,
        "config": dict(info["config"]),
        "created": info.get("created"),
        "state": {key: value for key, value in info["state"].items() if key not in ("subjects", "deleted")},
        "rate": round(site.rates.get(name, 0.0), 1),
        "limits": limits(info, time.time()),
        "plots": {key: _plot(site, name, key, span_s) for key in PLOTTED},
        "table": _table(site, name),
        "upstreams": upstream_rows(site, name),
        "copies": copies_of(sampler, site.site.name, name),
        "consumers": {
            str(each.get("name")): consumer_row(site.site.name, name, each)
            for each in consumers[:MOST_CONSUMERS]
        },
    }


def limits(info: Json, now_s: float) -> dict[str, Any]:
    """Return each limit that is set, what is used of it, and the share."""
    config, state = info["config"], info["state"]
    found: dict[str, Any] = {}
    for limit, used in (
        ("max_msgs", state.get("messages")),
        ("max_bytes", state.get("bytes")),
        ("max_consumers", state.get("consumer_count")),
    ):
        most = int(config.get(limit) or -1)
        if most > 0:
            found[limit] = {"most": most, "used": used or 0, "share": round((used or 0) / most, 4)}
    if (max_age_ns := int(config.get("max_age") or 0)) > 0:
        oldest_ns = parse_time(str(state.get("first_ts") or "")) or 0
        age_s = max(now_s - oldest_ns / SECOND, 0.0) if state.get("messages") and oldest_ns > 0 else 0.0
        most_s = max_age_ns / SECOND
        found["max_age"] = {"most": most_s, "used": round(age_s), "share": round(min(age_s / most_s, 1.0), 4)}
    return found


def _plot(site: SampledSite, stream: str, number: str, span_s: float) -> list[list[float | None]]:
    points = site.history.plot(("stream", stream, number), span_s)
    return [[round(at_s, 1), None if value is None else round(value, 2)] for at_s, value in points]


def _table(site: SampledSite, stream: str) -> dict[str, float]:
    metrics = site.snapshot.metrics
    if metrics is None:
        return {}
    found = {key: metrics.value(name, stream_name=stream) for key, name in _TABLE_METRICS.items()}
    return {key: value for key, value in found.items() if value is not None}
