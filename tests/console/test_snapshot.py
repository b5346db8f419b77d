"""A snapshot knows whether an engine answered."""

from __future__ import annotations

from consoles import sampler_with, stream_answer, upstream_answer


def test_an_engine_is_recognized_by_its_own_fields_or_metrics() -> None:
    plain = sampler_with(stream_answer("A")).sites["local"].snapshot
    copying = sampler_with(stream_answer("A", mirror=upstream_answer("B"))).sites["local"].snapshot
    scraped = sampler_with(stream_answer("A"), metrics="up 1\n").sites["local"].snapshot
    assert [each.is_engine for each in (plain, copying, scraped)] == [False, True, True]


def test_upstreams_are_read_once_for_the_streams_that_have_some() -> None:
    answer = stream_answer("A", mirror=upstream_answer("B"))
    snapshot = sampler_with(stream_answer("LONE"), answer).sites["local"].snapshot
    assert [upstream.name for upstream in snapshot.upstreams["A"]] == ["B"]
    assert list(snapshot.upstreams) == ["A"]
    assert snapshot.upstreams is snapshot.upstreams
