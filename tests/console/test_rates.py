"""Rates and recorded numbers are derived from two reads."""

from __future__ import annotations

from dataclasses import replace

from consoles import sampler_with, stream_answer, upstream_answer
from headwater.console.rates import recorded, stream_rates


def test_a_rate_is_the_growth_of_the_last_sequence_by_second() -> None:
    before = sampler_with(stream_answer("A", 10), stream_answer("B", 5)).sites["local"].snapshot
    after = sampler_with(stream_answer("A", 30), stream_answer("C", 5)).sites["local"].snapshot
    after = replace(after, at_s=before.at_s + 10)
    assert stream_rates(before, after) == {"A": 2.0}
    assert stream_rates(after, after) == {}


def test_a_re_created_stream_has_no_negative_rate() -> None:
    before = sampler_with(stream_answer("A", 10)).sites["local"].snapshot
    after = replace(before, at_s=before.at_s + 1, streams={"A": stream_answer("A", 1)})
    assert stream_rates(before, after) == {"A": 0.0}


def test_an_unknown_lag_is_not_recorded() -> None:
    seen = upstream_answer("ORIGIN", lag=7)
    unseen = upstream_answer("OTHER", active=-1)
    info = stream_answer("COPY", 3, sources=[seen, unseen])
    snapshot = sampler_with(info).sites["local"].snapshot
    numbers = dict(recorded(snapshot, {"COPY": 1.5}))
    assert numbers["stream", "COPY", "rate"] == 1.5
    assert numbers["upstream", "COPY", "0", "ORIGIN", "lag"] == 7
    assert ("upstream", "COPY", "1", "OTHER", "lag") not in numbers
    assert ("stream", "COPY", "lag") not in numbers
