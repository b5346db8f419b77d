"""Positions: copies stand right of their origins, and boxes never overlap."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from headwater.console.map_layout import MOST_RANKS, map_layout, ranks

names = st.sampled_from([f"{site}/{stream}" for site in "ab" for stream in "123456"])


def test_a_chain_goes_from_left_to_right() -> None:
    assert ranks("abc", [("a", "b"), ("b", "c")]) == {"a": 0, "b": 1, "c": 2}


@given(st.lists(st.tuples(names, names), max_size=20))
def test_circles_end_and_boxes_do_not_overlap(edges: list[tuple[str, str]]) -> None:
    nodes = sorted({node for edge in edges for node in edge})
    by_site = {site: [node for node in nodes if node[0] == site] for site in "ab"}
    layout = map_layout(by_site, edges)
    assert max(ranks(nodes, edges).values(), default=0) <= MOST_RANKS
    assert set(layout.nodes) == set(nodes)
    for one, other in combinations(layout.nodes.values(), 2):
        apart = one.x + one.width <= other.x or other.x + other.width <= one.x
        assert apart or one.y + one.height <= other.y or other.y + other.height <= one.y
    for node, box in layout.nodes.items():
        band = layout.bands[node[0]]
        assert band.y <= box.y
        assert box.y + box.height <= band.y + band.height
