"""The map is bounded: many streams become a number with a link."""

from __future__ import annotations

from console.test_map_graph import two_sites
from consoles import sampler_with, stream_answer, upstream_answer
from headwater.console.map_view import MOST_LONE, MOST_NODES, map_view


def test_links_between_sites_are_summed() -> None:
    view = map_view(two_sites(), {})
    assert view["links"]["hub → lake"]["copies"] == 1
    assert view["links"]["not watched → lake"]["lag"] is None
    assert set(view["bands"]) == {"", "hub", "lake"}
    assert "lake/ALONE" in view["nodes"]


def test_many_streams_without_copies_are_a_number() -> None:
    view = map_view(sampler_with(*(stream_answer(f"S{number}") for number in range(1000))), {})
    assert len(view["nodes"]) == MOST_LONE
    assert view["bands"]["local"]["more"] == 1000 - MOST_LONE


def test_too_many_copies_are_cut_and_no_edge_leads_nowhere() -> None:
    streams = [
        stream_answer(f"C{number}", mirror=upstream_answer(f"O{number}")) for number in range(MOST_NODES)
    ]
    view = map_view(sampler_with(*streams), {})
    assert len(view["nodes"]) == MOST_NODES
    assert all(
        edge["from"] in view["nodes"] and edge["to"] in view["nodes"] for edge in view["edges"].values()
    )
