"""Sources and mirrors: phase, lag, age, rate, time left, gaps, restarts, errors and their past."""

from __future__ import annotations

from typing import Any

from headwater.client.stream_info import UpstreamInfo
from headwater.console.console_page import Query
from headwater.console.health import upstream_health
from headwater.console.sampler import SampledSite, Sampler
from headwater.console.site_states import site_states
from headwater.console.snapshot import Json
from headwater.console.stream_spans import span_of
from headwater.console.upstream_remedies import upstream_remedy
from headwater.errors import Error

SPARK_POINTS = 30
MOST_ROWS = 2000


def upstreams_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return one row for each source and mirror of all sites."""
    rows: dict[str, Any] = {}
    total = 0
    for site in sampler.sites.values():
        for name, info in site.snapshot.streams.items():
            if info.get("mirror") or info.get("sources"):
                found = upstream_rows(site, name)
                total += len(found)
                if len(rows) + len(found) <= MOST_ROWS:
                    rows |= found
    return {"sites": site_states(sampler), "rows": rows, "total": total}


def upstream_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return one source or mirror with its gaps and the plots of its past."""
    site, stream, place = sampler.site(query["site"]), query["stream"], query["place"]
    row = upstream_rows(site, stream).get(f"{site.site.name}/{stream}/{place}")
    if row is None:
        raise Error(f'the stream "{stream}" at {site.site.name} has no such source or mirror')
    key, span_s = ("upstream", stream, place, row["origin"]), span_of(query)
    plots = {
        number: [[round(at_s, 1), value] for at_s, value in site.history.plot((*key, number), span_s)]
        for number in ("lag", "behind", "rate")
    }
    info = site.snapshot.streams[stream]
    raw = [*([info["mirror"]] if info.get("mirror") else []), *(info.get("sources") or [])][int(place)]
    return {
        "title": f"{stream} from {row['origin']}",
        "sites": site_states(sampler),
        "row": row,
        "plots": plots,
        "gaps": ((raw.get("headwater") or {}).get("gaps") or {}).get("recent") or [],
        "raw": dict(raw),
    }


def upstream_rows(site: SampledSite, stream: str) -> dict[str, Any]:
    """Return the sources and mirrors of one stream, by site, stream and place."""
    info = site.snapshot.streams.get(stream)
    if info is None:
        return {}
    raw = [*([info["mirror"]] if info.get("mirror") else []), *(info.get("sources") or [])]
    found = zip(site.snapshot.upstreams.get(stream, ()), raw, strict=True)
    return {
        f"{site.site.name}/{stream}/{place}": _row(site, stream, place, upstream, answer)
        for place, (upstream, answer) in enumerate(found)
    }


def _row(site: SampledSite, stream: str, place: int, upstream: UpstreamInfo, answer: Json) -> dict[str, Any]:
    health = upstream_health(upstream)
    progress = answer.get("headwater") or {}
    key = ("upstream", stream, str(place), upstream.name)
    return {
        "site": site.site.name,
        "stream": stream,
        "place": place,
        "origin": upstream.name,
        "kind": "mirror" if upstream.is_mirror else "source",
        "api": upstream.api_prefix,
        "filter": answer.get("filter_subject") or "",
        "health": health.level,
        "why": health.why,
        "phase": str(upstream.phase or ""),
        "lag": upstream.lag,
        "last_known_lag": upstream.last_known_lag,
        "behind": upstream.behind_s,
        "silent": None if upstream.silent_s is None else round(upstream.silent_s, 1),
        "rate": upstream.messages_per_s,
        "bytes_rate": upstream.bytes_per_s,
        "left": upstream.caught_up_in_s,
        "done": upstream.done,
        "gaps": upstream.gap_count,
        "gap_sequences": upstream.gap_sequences,
        "restarts": upstream.restarts,
        "dead_letters": (progress.get("pipeline") or {}).get("dead_letters"),
        "error": upstream.error,
        "failing_since": progress.get("failing_since"),
        "next_attempt": progress.get("next_attempt"),
        "copied": (progress.get("copied") or {}).get("msgs"),
        "remedy": upstream_remedy(upstream),
        "spark": site.history.recent((*key, "lag"), SPARK_POINTS),
        "rate_spark": site.history.recent((*key, "rate"), SPARK_POINTS),
    }
