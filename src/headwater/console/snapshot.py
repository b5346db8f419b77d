"""What the console read from one site at one time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from headwater.client.stream_info import UpstreamInfo, upstream_infos
from headwater.console.scraped_metrics import ScrapedMetrics

Json = Mapping[str, Any]


@dataclass(frozen=True)
class SiteSnapshot:
    """One site as it was at one time; after an error, the last known streams with that error."""

    site: str
    at_s: float
    """Seconds since the epoch; 0 before the first answer."""
    error: str = ""
    """Why the site could not be read; empty if it was."""
    account: Json = field(default_factory=dict)
    """The answer of the API to INFO."""
    streams: Mapping[str, Json] = field(default_factory=dict)
    """The answers of STREAM.INFO by name."""
    offline: Mapping[str, str] = field(default_factory=dict)
    """The reasons for which streams could not be opened, by name."""
    consumers: Mapping[str, Sequence[Json]] = field(default_factory=dict)
    """The answers of CONSUMER.INFO by stream; streams that were not asked yet are missing."""
    pipelines: Sequence[Json] = ()
    """The pipelines of an engine, as it reports them."""
    server: str = ""
    """The server that the console is connected to, as it names itself."""
    metrics: ScrapedMetrics | None = None
    """The metrics of an engine; None for a plain nats-server, or if no address is known."""
    metrics_error: str = ""
    """Why the monitoring pages could not be read."""
    readiness: Json = field(default_factory=dict)
    """The answer of /readyz; empty if there is none."""
    warnings: Sequence[Json] = ()
    """The last warnings that the engine logged, the newest first."""
    streaming: Json = field(default_factory=dict)
    """The channels and clients of NATS Streaming; empty if the engine does not serve them."""

    @cached_property
    def is_engine(self) -> bool:
        """Return whether a Headwater engine answers, not a plain nats-server."""
        return self.metrics is not None or any("headwater" in info for info in self._parts())

    @cached_property
    def upstreams(self) -> Mapping[str, tuple[UpstreamInfo, ...]]:
        """Return the sources or the mirror of each stream that has some; read once for all pages."""
        now = datetime.fromtimestamp(self.at_s, UTC)
        copying = (
            (name, info) for name, info in self.streams.items() if info.get("mirror") or info.get("sources")
        )
        return {name: upstream_infos(info, now) for name, info in copying}

    def _parts(self) -> list[Json]:
        found: list[Json] = [self.account]
        for info in self.streams.values():
            found += [info, info.get("mirror") or {}, *(info.get("sources") or ())]
        return found
