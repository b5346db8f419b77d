"""What the console derives from two reads of a site: rates, lags, and the numbers with a history."""

from __future__ import annotations

from collections.abc import Iterator

from headwater.client.stream_info import UpstreamInfo
from headwater.console.snapshot import Json, SiteSnapshot

Recorded = tuple[tuple[str, ...], float]
"""What a number belongs to and its name, and its value."""


def stream_rates(before: SiteSnapshot, after: SiteSnapshot) -> dict[str, float]:
    """Return how many messages a second each stream stored between two reads."""
    passed_s = after.at_s - before.at_s
    if passed_s <= 0 or not before.at_s:
        return {}
    return {
        name: max(_last(info) - _last(before.streams[name]), 0) / passed_s
        for name, info in after.streams.items()
        if name in before.streams
    }


def recorded(snapshot: SiteSnapshot, rates: dict[str, float]) -> Iterator[Recorded]:
    """Yield the numbers of a read that the console keeps."""
    yield ("site", "rate"), sum(rates.values())
    for name, info in snapshot.streams.items():
        state = info["state"]
        yield ("stream", name, "messages"), float(state.get("messages") or 0)
        yield ("stream", name, "bytes"), float(state.get("bytes") or 0)
        if name in rates:
            yield ("stream", name, "rate"), rates[name]
        yield from _upstream_numbers(name, snapshot.upstreams.get(name, ()))
    for stream, consumers in snapshot.consumers.items():
        pending = sum(int(consumer.get("num_pending") or 0) for consumer in consumers)
        yield ("stream", stream, "pending"), float(pending)
    if snapshot.metrics is not None:
        for metric in ("process_resident_memory_bytes", "headwater_disk_free_bytes"):
            if (value := snapshot.metrics.value(metric)) is not None:
                yield ("engine", metric), value


def _upstream_numbers(stream: str, upstreams: tuple[UpstreamInfo, ...]) -> Iterator[Recorded]:
    lags = [upstream.lag for upstream in upstreams]
    if lags and None not in lags:
        yield ("stream", stream, "lag"), float(sum(lag or 0 for lag in lags))
    for place, upstream in enumerate(upstreams):
        key = ("upstream", stream, str(place), upstream.name)
        for name, value in (
            ("lag", upstream.lag),
            ("behind", upstream.behind_s),
            ("rate", upstream.messages_per_s),
        ):
            if value is not None:
                yield (*key, name), float(value)


def _last(info: Json) -> int:
    return int(info["state"].get("last_seq") or 0)
