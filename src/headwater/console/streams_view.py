"""The list of streams of all sites: size, rate, consumers, lag, table and a short past of the rate."""

from __future__ import annotations

from typing import Any

from headwater.console.console_page import Query
from headwater.console.health import stream_health
from headwater.console.sampler import SampledSite, Sampler
from headwater.console.site_states import site_states

SPARK_POINTS = 30
MOST_ROWS = 5000


def streams_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return one row for each stream, by site and name."""
    wanted = query.get("site", "")
    rows: dict[str, Any] = {}
    total = 0
    for name, site in sampler.sites.items():
        if wanted in ("", name):
            total += len(site.snapshot.streams)
            rows |= _rows(site, MOST_ROWS - len(rows))
    return {"sites": site_states(sampler), "rows": rows, "total": total}


def _rows(site: SampledSite, room: int) -> dict[str, Any]:
    snapshot = site.snapshot
    tables = (
        snapshot.metrics.by_label("headwater_stream_table_bytes", "stream_name") if snapshot.metrics else {}
    )
    rows: dict[str, Any] = {}
    for name in sorted({*snapshot.streams, *snapshot.offline})[: max(room, 0)]:
        row = _row(site, name) if name in snapshot.streams else _offline(snapshot.offline[name])
        rows[f"{snapshot.site}/{name}"] = {
            "site": snapshot.site,
            "name": name,
            **row,
            "table": tables.get(name),
        }
    return rows


def _row(site: SampledSite, name: str) -> dict[str, Any]:
    info = site.snapshot.streams[name]
    state = info["state"]
    upstreams = site.snapshot.upstreams.get(name, ())
    lags = [upstream.lag for upstream in upstreams]
    pending = site.snapshot.consumers.get(name)
    return {
        "health": stream_health(info, site.snapshot).level,
        "messages": int(state.get("messages") or 0),
        "bytes": int(state.get("bytes") or 0),
        "rate": round(site.rates.get(name, 0.0), 1),
        "consumers": int(state.get("consumer_count") or 0),
        "pending": None if pending is None else sum(int(each.get("num_pending") or 0) for each in pending),
        "copies": len(upstreams),
        "lag": None if None in lags else sum(lag or 0 for lag in lags),
        "spark": site.history.line(("stream", name, "rate"), SPARK_POINTS),
    }


def _offline(reason: str) -> dict[str, Any]:
    return {"health": "bad", "messages": 0, "bytes": 0, "rate": 0, "consumers": 0, "copies": 0, "why": reason}
