"""How well a stream, a source or a mirror does: good, busy, unknown or bad, and why."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.client.stream_info import UpstreamInfo
from headwater.console.snapshot import Json, SiteSnapshot
from headwater.model.progress import Phase

GOOD, BUSY, UNKNOWN, BAD = "good", "busy", "unknown", "bad"
_ORDER = (GOOD, UNKNOWN, BUSY, BAD)
NEARLY_FULL = 0.9


@dataclass(frozen=True)
class HealthLevel:
    """One of the levels, and a sentence if it is not good."""

    level: str
    why: str = ""


def upstream_health(upstream: UpstreamInfo) -> HealthLevel:
    """Return how well a source or a mirror does."""
    if upstream.error:
        return HealthLevel(BAD, upstream.error)
    if upstream.phase in (Phase.RETRYING, Phase.STALLED):
        return HealthLevel(BAD, f"it is {upstream.phase}")
    if upstream.gap_count:
        return HealthLevel(BUSY, f"{upstream.gap_sequences} sequences were removed before they were copied")
    if upstream.lag is None:
        return HealthLevel(UNKNOWN, "the origin has not answered yet")
    if upstream.phase is Phase.CATCHING_UP or (upstream.phase is None and upstream.lag > 0):
        waiting = f": {upstream.waiting}" if upstream.waiting else ""
        return HealthLevel(BUSY, f"{upstream.lag} messages are not copied yet{waiting}")
    return HealthLevel(GOOD)


def stream_health(info: Json, snapshot: SiteSnapshot) -> HealthLevel:
    """Return how well a stream does: the worst of the stream itself and its upstreams."""
    if error := (info.get("headwater") or {}).get("error"):
        return HealthLevel(BAD, str(error))
    found = [upstream_health(upstream) for upstream in snapshot.upstreams.get(info["config"]["name"], ())]
    return worst(found)


def worst(levels: list[HealthLevel]) -> HealthLevel:
    """Return the worst of several levels; good if there is none."""
    return max(levels, key=lambda found: _ORDER.index(found.level), default=HealthLevel(GOOD))
