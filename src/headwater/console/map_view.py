"""The map: sites, streams and copies with positions, rates, lags and health."""

from __future__ import annotations

from typing import Any

from headwater.console.console_page import Query
from headwater.console.health import HealthLevel, worst
from headwater.console.map_graph import OUTSIDE, CopyEdge, CopyGraph, StreamNode, copy_graph, lone_streams
from headwater.console.map_layout import map_layout
from headwater.console.sampler import Sampler
from headwater.console.site_states import site_states

MOST_LONE = 12
"""Streams without copies that are drawn for each site; the others are a number with a link."""
MOST_NODES = 600


def map_view(sampler: Sampler, query: Query) -> dict[str, Any]:
    """Return the map as it is now."""
    graph = copy_graph(sampler)
    by_site: dict[str, list[str]] = {}
    more: dict[str, int] = {}
    for site in sampler.sites:
        lone = lone_streams(sampler, site, graph)
        lone.sort(key=lambda node: (-node.rate, -node.messages, node.name))
        for node in lone[:MOST_LONE]:
            graph.nodes[node.key] = node
        more[site] = max(len(lone) - MOST_LONE, 0)
        by_site[site] = [key for key, node in graph.nodes.items() if node.site == site]
    if outside := [key for key, node in graph.nodes.items() if node.site == OUTSIDE]:
        by_site = {OUTSIDE: outside, **by_site}
    _cut(graph, by_site, more)
    layout = map_layout(by_site, [(edge.origin, edge.target) for edge in graph.edges.values()])
    return {
        "sites": site_states(sampler),
        "width": layout.width,
        "height": layout.height,
        "bands": {
            site: {"box": _box(box), "more": more.get(site, 0), "name": site or "not watched"}
            for site, box in layout.bands.items()
        },
        "nodes": {
            key: {"box": _box(layout.nodes[key]), **_node(node)}
            for key, node in graph.nodes.items()
            if key in layout.nodes
        },
        "edges": {key: _edge(edge, graph) for key, edge in graph.edges.items()},
        "links": _links(graph),
    }


def _cut(graph: CopyGraph, by_site: dict[str, list[str]], more: dict[str, int]) -> None:
    """Leave out the nodes that are too many for a picture, and their edges."""
    room = MOST_NODES
    for site, nodes in by_site.items():
        more[site] = more.get(site, 0) + max(len(nodes) - room, 0)
        by_site[site] = nodes[:room]
        room -= len(by_site[site])
    kept = {node for nodes in by_site.values() for node in nodes}
    for key in [key for key, edge in graph.edges.items() if not {edge.origin, edge.target} <= kept]:
        del graph.edges[key]


def _box(box: Any) -> list[float]:
    return [box.x, box.y, box.width, box.height]


def _node(node: StreamNode) -> dict[str, Any]:
    return {
        "site": node.site,
        "name": node.name,
        "health": node.health.level,
        "why": node.health.why,
        "rate": node.rate,
        "messages": node.messages,
        "known": node.is_known,
    }


def _edge(edge: CopyEdge, graph: CopyGraph) -> dict[str, Any]:
    target = graph.nodes[edge.target]
    return {
        "from": edge.origin,
        "to": edge.target,
        "site": target.site,
        "stream": target.name,
        "place": edge.place,
        "kind": "mirror" if edge.upstream.is_mirror else "source",
        "health": edge.health.level,
        "why": edge.health.why,
        "lag": edge.upstream.lag,
        "rate": edge.upstream.messages_per_s,
        "phase": str(edge.upstream.phase or ""),
    }


def _links(graph: CopyGraph) -> dict[str, Any]:
    """Return the copies between different sites, summed for each pair of sites."""
    pairs: dict[tuple[str, str], list[CopyEdge]] = {}
    for edge in graph.edges.values():
        pair = (graph.nodes[edge.origin].site, graph.nodes[edge.target].site)
        if pair[0] != pair[1]:
            pairs.setdefault(pair, []).append(edge)
    return {
        f"{origin or 'not watched'} → {target}": _link(edges) for (origin, target), edges in pairs.items()
    }


def _link(edges: list[CopyEdge]) -> dict[str, Any]:
    levels: list[HealthLevel] = [edge.health for edge in edges]
    state = worst(levels)
    lags = [edge.upstream.lag for edge in edges]
    return {
        "copies": len(edges),
        "health": state.level,
        "why": state.why,
        "lag": None if None in lags else sum(lag or 0 for lag in lags),
        "rate": round(sum(edge.upstream.messages_per_s or 0.0 for edge in edges), 1),
    }
