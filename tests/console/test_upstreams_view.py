"""Rows of sources and mirrors, and the page of one."""

from __future__ import annotations

import pytest

from consoles import sampler_with, stream_answer, upstream_answer
from headwater.console.upstreams_view import upstream_view, upstreams_view
from headwater.errors import Error

GAPS = {"count": 1, "sequences": 5, "recent": [{"first_seq": 3, "last_seq": 7, "reason": "retention"}]}


def test_every_source_is_a_row_with_its_place() -> None:
    failing = upstream_answer("B", error={"description": "stream not found", "err_code": 10059}, active=-1)
    sampler = sampler_with(stream_answer("COPY", sources=[upstream_answer("A", lag=4), failing]))
    rows = upstreams_view(sampler, {})["rows"]
    assert [rows[f"local/COPY/{place}"]["lag"] for place in (0, 1)] == [4, None]
    assert (rows["local/COPY/1"]["health"], rows["local/COPY/1"]["why"]) == ("bad", "stream not found")


def test_one_source_shows_its_gaps_with_their_reasons() -> None:
    source = upstream_answer("A")
    source["headwater"]["gaps"] = GAPS
    sampler = sampler_with(stream_answer("COPY", mirror=source))
    view = upstream_view(sampler, {"site": "local", "stream": "COPY", "place": "0"})
    assert view["gaps"][0]["reason"] == "retention"
    assert (view["row"]["kind"], view["row"]["gap_sequences"]) == ("mirror", 5)
    with pytest.raises(Error, match="no such source"):
        upstream_view(sampler, {"site": "local", "stream": "COPY", "place": "1"})


def test_only_a_pipeline_has_a_number_of_dead_letters() -> None:
    piped = upstream_answer("A")
    piped["headwater"]["pipeline"] = {"dead_letters": 7}
    sampler = sampler_with(stream_answer("COPY", sources=[piped, upstream_answer("B")]))
    rows = upstreams_view(sampler, {})["rows"]
    assert [rows[f"local/COPY/{place}"]["dead_letters"] for place in (0, 1)] == [7, None]
