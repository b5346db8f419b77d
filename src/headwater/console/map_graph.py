"""Streams of all sites and the copies between them as a graph, without positions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headwater.client.stream_info import UpstreamInfo
from headwater.console.health import HealthLevel, stream_health, upstream_health
from headwater.console.sampler import SampledSite, Sampler

OUTSIDE = ""
"""The site of streams that no watched site has."""


@dataclass(frozen=True)
class StreamNode:
    """A stream of a site, or one outside of all watched sites."""

    site: str
    name: str
    health: HealthLevel
    rate: float = 0.0
    messages: int = 0
    is_known: bool = True

    @property
    def key(self) -> str:
        """Return what identifies the node."""
        return f"{self.site}/{self.name}"


@dataclass(frozen=True)
class CopyEdge:
    """A source or mirror: what is copied from where to where."""

    origin: str
    target: str
    place: int
    health: HealthLevel
    upstream: UpstreamInfo

    @property
    def key(self) -> str:
        """Return what identifies the edge."""
        return f"{self.target}/{self.place}"


@dataclass
class CopyGraph:
    """All nodes and edges by their keys."""

    nodes: dict[str, StreamNode] = field(default_factory=dict)
    edges: dict[str, CopyEdge] = field(default_factory=dict)


def copy_graph(sampler: Sampler) -> CopyGraph:
    """Return the streams that take part in copying, and the copies."""
    graph = CopyGraph()
    domains = _domains(sampler)
    for name, site in sampler.sites.items():
        for stream, upstreams in site.snapshot.upstreams.items():
            for place, upstream in enumerate(upstreams):
                target = _node(site, stream)
                origin = _origin(sampler, name, upstream, domains)
                graph.nodes.setdefault(target.key, target)
                graph.nodes.setdefault(origin.key, origin)
                edge = CopyEdge(origin.key, target.key, place, upstream_health(upstream), upstream)
                graph.edges[edge.key] = edge
    return graph


def lone_streams(sampler: Sampler, site: str, graph: CopyGraph) -> list[StreamNode]:
    """Return the streams of a site that take no part in copying."""
    sampled = sampler.sites[site]
    names = (name for name in sampled.snapshot.streams if f"{site}/{name}" not in graph.nodes)
    return [_node(sampled, name) for name in names]


def copies_of(sampler: Sampler, site: str, stream: str) -> dict[str, Any]:
    """Return the streams that copy this one, each with its health and lag."""
    graph = copy_graph(sampler)
    return {
        edge.key: {
            "site": graph.nodes[edge.target].site,
            "stream": graph.nodes[edge.target].name,
            "place": edge.place,
            "health": edge.health.level,
            "lag": edge.upstream.lag,
        }
        for edge in graph.edges.values()
        if edge.origin == f"{site}/{stream}"
    }


def _domains(sampler: Sampler) -> dict[str, str]:
    """Return the sites by the API prefix under which others reach them."""
    found: dict[str, str] = {}
    for name, site in sampler.sites.items():
        for domain in (site.site.connection.domain, str(site.snapshot.account.get("domain") or "")):
            if domain:
                found.setdefault(f"$JS.{domain}.API", name)
    return found


def _origin(sampler: Sampler, site: str, upstream: UpstreamInfo, domains: Mapping[str, str]) -> StreamNode:
    """Return the stream that is copied: of this site, of another watched one, or outside."""
    where = domains.get(upstream.api_prefix.rstrip("."), OUTSIDE) if upstream.api_prefix else site
    sampled = sampler.sites.get(where)
    if sampled is not None and upstream.name in sampled.snapshot.streams:
        return _node(sampled, upstream.name)
    shown = (
        f"{upstream.name} at {upstream.api_prefix}" if upstream.api_prefix and not where else upstream.name
    )
    level = "unknown" if upstream.lag is None else "good"
    return StreamNode(where, shown, HealthLevel(level), is_known=False)


def _node(site: SampledSite, stream: str) -> StreamNode:
    info = site.snapshot.streams[stream]
    return StreamNode(
        site.site.name,
        stream,
        stream_health(info, site.snapshot),
        round(site.rates.get(stream, 0.0), 1),
        int(info["state"].get("messages") or 0),
    )
