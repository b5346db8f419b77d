"""Positions of the map: a band for each site, and columns so that copies go from left to right."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

COLUMN = 340
ROW = 58
BOX_WIDTH = 200
BOX_HEIGHT = 40
BAND_HEAD = 34
BAND_PAD = 16
BAND_GAP = 18
MOST_RANKS = 12
"""Longer chains, and circles, share the last columns."""


@dataclass(frozen=True)
class Box:
    """A rectangle of the map."""

    x: float
    y: float
    width: float
    height: float


@dataclass(frozen=True)
class MapLayout:
    """Where everything is."""

    nodes: Mapping[str, Box]
    bands: Mapping[str, Box]
    width: float
    height: float


def ranks(nodes: Iterable[str], edges: Sequence[tuple[str, str]]) -> dict[str, int]:
    """Return the column of each node: one more than that of the origins it is copied from."""
    found = dict.fromkeys(nodes, 0)
    for _ in range(MOST_RANKS):
        moved = False
        for origin, target in edges:
            wanted = min(found[origin] + 1, MOST_RANKS)
            if origin != target and found[target] < wanted:
                found[target] = wanted
                moved = True
        if not moved:
            break
    return found


def map_layout(nodes_by_site: Mapping[str, Sequence[str]], edges: Sequence[tuple[str, str]]) -> MapLayout:
    """Return the positions of nodes, site by site from the top."""
    column = ranks((node for nodes in nodes_by_site.values() for node in nodes), edges)
    boxes: dict[str, Box] = {}
    bands: dict[str, Box] = {}
    columns = max(column.values(), default=0) + 1
    width = columns * COLUMN - (COLUMN - BOX_WIDTH) + 2 * BAND_PAD
    top = 0.0
    for site, nodes in nodes_by_site.items():
        used: dict[int, int] = {}
        for node in _ordered(nodes, column, edges, boxes):
            row = used.get(column[node], 0)
            used[column[node]] = row + 1
            x = BAND_PAD + column[node] * COLUMN
            boxes[node] = Box(x, top + BAND_HEAD + row * ROW, BOX_WIDTH, BOX_HEIGHT)
        rows = max(used.values(), default=0)
        height = BAND_HEAD + max(rows * ROW - (ROW - BOX_HEIGHT), 0) + BAND_PAD
        bands[site] = Box(0, top, width, height)
        top += height + BAND_GAP
    return MapLayout(boxes, bands, width, max(top - BAND_GAP, 0))


def _ordered(
    nodes: Sequence[str],
    column: Mapping[str, int],
    edges: Sequence[tuple[str, str]],
    placed: Mapping[str, Box],
) -> list[str]:
    """Return nodes so that lines cross less: by column, then near the mean height of their origins."""
    origins: dict[str, list[str]] = {}
    for origin, target in edges:
        origins.setdefault(target, []).append(origin)
    place = {node: index for index, node in enumerate(sorted(nodes))}

    def height(node: str) -> float:
        heights = [placed[each].y for each in origins.get(node, ()) if each in placed]
        inside = [place[each] for each in origins.get(node, ()) if each in place]
        if heights:
            return sum(heights) / len(heights)
        return sum(inside) / len(inside) if inside else place[node]

    return sorted(nodes, key=lambda node: (column[node], height(node), node))
