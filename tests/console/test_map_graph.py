"""The graph of copies finds origins at this site, at another one, and outside."""

from __future__ import annotations

from consoles import sampler_with, stream_answer, upstream_answer
from headwater.console.map_graph import copies_of, copy_graph, lone_streams
from headwater.console.sampler import Sampler


def two_sites() -> Sampler:
    """Return a hub with the domain `hub`, and a lake that copies from it, from itself, and from outside."""
    hub = sampler_with(stream_answer("ORDERS", 5), site="hub", account={"domain": "hub"})
    lake = sampler_with(
        stream_answer(
            "ARCHIVE",
            sources=[
                upstream_answer("ORDERS", external={"api": "$JS.hub.API"}),
                upstream_answer("ORDERS", external={"api": "$JS.far.API"}, active=-1),
            ],
        ),
        stream_answer("REPORT", mirror=upstream_answer("ARCHIVE")),
        stream_answer("ALONE"),
        site="lake",
    )
    both = Sampler([])
    both.sites = {**hub.sites, **lake.sites}
    return both


def test_edges_lead_from_the_origin_to_the_copy() -> None:
    graph = copy_graph(two_sites())
    assert {(edge.origin, edge.target) for edge in graph.edges.values()} == {
        ("hub/ORDERS", "lake/ARCHIVE"),
        ("/ORDERS at $JS.far.API", "lake/ARCHIVE"),
        ("lake/ARCHIVE", "lake/REPORT"),
    }
    assert not graph.nodes["/ORDERS at $JS.far.API"].is_known


def test_streams_without_copies_are_apart() -> None:
    sampler = two_sites()
    assert [node.name for node in lone_streams(sampler, "lake", copy_graph(sampler))] == ["ALONE"]


def test_the_copies_of_a_stream_are_found_at_other_sites() -> None:
    assert [each["stream"] for each in copies_of(two_sites(), "hub", "ORDERS").values()] == ["ARCHIVE"]
