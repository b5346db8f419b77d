"""One stream: its limits, its table, and streams that do not exist."""

from __future__ import annotations

import pytest

from consoles import sampler_with, stream_answer, upstream_answer
from headwater.console.stream_view import limits, stream_view
from headwater.errors import Error


def test_limits_say_how_full_they_are() -> None:
    info = stream_answer("A", 50)
    info["config"] |= {"max_msgs": 100, "max_bytes": -1, "max_age": 10_000_000_000}
    info["state"] |= {"first_ts": "2026-11-16T10:00:00Z"}
    found = limits(info, 1_794_823_205.0)
    assert found["max_msgs"] == {"most": 100, "used": 50, "share": 0.5}
    assert (found["max_age"]["used"], found["max_age"]["share"]) == (5, 0.5)
    assert "max_bytes" not in found


def test_an_empty_stream_with_an_age_is_not_old() -> None:
    info = stream_answer("A", 0)
    info["config"]["max_age"] = 1_000_000_000
    info["state"]["first_ts"] = "0001-01-01T00:00:00Z"
    assert limits(info, 1e9)["max_age"]["used"] == 0


def test_a_view_has_the_table_the_copies_and_the_consumers() -> None:
    sampler = sampler_with(
        stream_answer("A", 5),
        stream_answer("COPY", 5, mirror=upstream_answer("A")),
        metrics='headwater_stream_table_files{stream_name="A"} 3\n',
        consumers={"A": [{"name": "c", "num_pending": 2}]},
    )
    found = stream_view(sampler, {"site": "local", "stream": "A"})
    assert found["table"] == {"files": 3}
    assert found["copies"]["local/COPY/0"]["stream"] == "COPY"
    assert found["consumers"]["c"]["pending"] == 2
    assert "local/COPY/0" in stream_view(sampler, {"site": "local", "stream": "COPY"})["upstreams"]


def test_a_stream_that_is_not_there_says_why_if_that_is_known() -> None:
    sampler = sampler_with(offline={"B": "a file is damaged"})
    with pytest.raises(Error, match="a file is damaged"):
        stream_view(sampler, {"site": "local", "stream": "B"})
    with pytest.raises(Error, match='there is no stream "C" at local'):
        stream_view(sampler, {"site": "local", "stream": "C"})
