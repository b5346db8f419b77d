"""The replication graph: as GraphViz text, or drawn as SVG or PNG."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from headwater.cli.phrases import number
from headwater.cli.reports import filters, upstreams
from headwater.cli.session import Json
from headwater.cli.stream.upstream_progress import UNKNOWN, is_known
from headwater.errors import Error

TITLE = "Stream Replication Structure"
DRAWING_SECONDS = 30
_MIRROR, _SOURCE = "#2563eb", "#16a34a"
_BOX_HEIGHT, _ROW, _LEFT, _TOP = 34, 70, 30, 60
_LETTER = 8.2


@dataclass(frozen=True)
class Edge:
    """An upstream: a stream that is copied into another."""

    origin: str
    target: str
    kind: str
    label: str
    is_known: bool = True
    """Whether the lag is known."""


@dataclass(frozen=True)
class Graph:
    """Streams and their upstreams."""

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]


def replication_graph(infos: Iterable[Json]) -> Graph:
    """Return the streams that are replicated; a remote origin is labelled with its API prefix."""
    edges = []
    for info in sorted(infos, key=lambda info: str(info["config"]["name"])):
        for kind, upstream in upstreams(info):
            api = (upstream.get("external") or {}).get("api", "")
            origin = f"{upstream['name']}\n{api}" if api else upstream["name"]
            label = "Mirror" if kind == "Mirror" else filters(upstream)
            known, state = is_known(upstream), _state(upstream)
            edges.append(Edge(origin, info["config"]["name"], kind, f"{label} {state}".strip(), known))
    nodes = sorted({name for edge in edges for name in (edge.origin, edge.target)})
    return Graph(tuple(nodes), tuple(edges))


def _state(upstream: Json) -> str:
    """Return the text for an upstream that has not caught up."""
    if not is_known(upstream):
        return f"(state {UNKNOWN})"
    lag = int(upstream.get("lag", 0))
    return f"({number(lag)} behind)" if lag else ""


def dot_text(graph: Graph) -> str:
    """Return the graph in GraphViz's DOT language."""
    ids = {name: f"n{place}" for place, name in enumerate(graph.nodes, 1)}
    lines = ["digraph {", f'\tlabel="{TITLE}";']
    lines += [f"\t{ids[name]}[label={_quoted(name)}];" for name in graph.nodes]
    for edge in graph.edges:
        colour = "blue" if edge.kind == "Mirror" else "green"
        label = f",label={_quoted(edge.label)}" if edge.label else ""
        style = "" if edge.is_known else ",style=dashed"
        lines.append(f'\t{ids[edge.origin]}->{ids[edge.target]}[color="{colour}"{label}{style}];')
    return "\n".join([*lines, "}", ""])


def svg_text(graph: Graph) -> str:
    """Return the graph as SVG: origins on the left, each stream one step right of its upstreams."""
    columns = _columns(graph)
    places: dict[str, tuple[float, float, float]] = {}
    left = float(_LEFT)
    labels = max((len(edge.label) for edge in graph.edges), default=0)
    for names in columns:
        width = max(max(map(len, name.split("\n"))) for name in names) * _LETTER + 24
        for row, name in enumerate(names):
            places[name] = (left, _TOP + row * _ROW, width)
        left += width + 60 + labels * _LETTER
    right = max((x + width for x, _, width in places.values()), default=0) + _LEFT
    right = max(right, len(TITLE) * _LETTER + 2 * _LEFT)
    bottom = _TOP + max(map(len, columns), default=0) * _ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {right:.0f} {bottom}" '
        f'width="{right:.0f}" height="{bottom}" font-family="monospace" font-size="13">',
        f"<title>{TITLE}</title>",
        '<defs><marker id="end" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0 10 5 0 10z"/></marker></defs>',
        f'<rect width="100%" height="100%" fill="white"/><text x="{_LEFT}" y="28">{TITLE}</text>',
        *(_edge_svg(edge, places) for edge in graph.edges),
        *(_node_svg(name, *places[name]) for name in graph.nodes),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def draw(graph: Graph, path: Path, form: str) -> str:
    """Write the graph to a file as `svg` or `png`, and return the name of the program that drew it."""
    program = shutil.which("dot")
    if program is not None:
        try:
            drawn = subprocess.run(
                [program, f"-T{form}"],
                input=dot_text(graph).encode(),
                check=True,
                capture_output=True,
                timeout=DRAWING_SECONDS,
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired, OSError) as error:
            raise Error(f"dot cannot draw {path}: {error}; use --dot FILE instead") from None
        write(path, drawn.stdout)
        return "GraphViz"
    if form != "svg":
        raise Error("--png needs GraphViz: install its program `dot`, or use --svg")
    write(path, svg_text(graph))
    return "headwater (install GraphViz for a better layout)"


def write(path: Path, content: str | bytes) -> None:
    """Replace a file atomically; on an error or Ctrl-C the old one stays."""
    data = content.encode() if isinstance(content, str) else content
    # A path such as /dev/stdout is not a regular file and cannot be replaced.
    draft = path.with_name(f".{path.name}.unfinished") if path.is_file() or not path.exists() else path
    try:
        try:
            draft.write_bytes(data)
            if draft != path:
                draft.replace(path)
        finally:
            if draft != path:
                draft.unlink(missing_ok=True)
    except OSError as error:
        raise Error(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None


def _columns(graph: Graph) -> list[list[str]]:
    """Return the streams by their distance from an origin; cycles are cut."""
    depth = dict.fromkeys(graph.nodes, 0)
    for _ in graph.nodes:
        before = dict(depth)
        for edge in graph.edges:
            depth[edge.target] = min(max(depth[edge.target], depth[edge.origin] + 1), len(graph.nodes) - 1)
        if depth == before:
            break
    steps = sorted(set(depth.values()))
    return [[name for name in graph.nodes if depth[name] == step] for step in steps]


def _node_svg(name: str, x: float, y: float, width: float) -> str:
    lines = name.split("\n")
    first = y + _BOX_HEIGHT / 2 + 4 - (len(lines) - 1) * 7
    at = f'x="{x + width / 2:.1f}" text-anchor="middle"'
    text = "".join(
        f'<text {at} y="{first + 14 * place:.1f}">{escape(line)}</text>' for place, line in enumerate(lines)
    )
    box = f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="{_BOX_HEIGHT}" rx="6"'
    return f'{box} fill="#f8fafc" stroke="#334155"/>{text}'


def _edge_svg(edge: Edge, places: dict[str, tuple[float, float, float]]) -> str:
    x, y, width = places[edge.origin]
    to_x, to_y, _ = places[edge.target]
    start, end = (x + width, y + _BOX_HEIGHT / 2), (to_x, to_y + _BOX_HEIGHT / 2)
    middle = (start[0] + end[0]) / 2
    colour = _MIRROR if edge.kind == "Mirror" else _SOURCE
    dashes = "" if edge.is_known else ' stroke-dasharray="6 4"'
    path = f"M{start[0]:.1f} {start[1]:.1f}C{middle:.1f} {start[1]:.1f} {middle:.1f} {end[1]:.1f} "
    drawn = f'fill="none" stroke="{colour}"{dashes} marker-end="url(#end)"'
    line = f'<path d="{path}{end[0]:.1f} {end[1]:.1f}" {drawn}/>'
    if not edge.label:
        return line
    at = f'x="{middle:.1f}" y="{(start[1] + end[1]) / 2 - 6:.1f}"'
    return f'{line}<text {at} text-anchor="middle" fill="{colour}">{escape(edge.label)}</text>'


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
