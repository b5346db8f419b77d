"""The rows of the list of streams."""

from __future__ import annotations

from consoles import sampler_with, stream_answer, upstream_answer
from headwater.console.streams_view import streams_view


def test_a_row_shows_lag_table_and_consumers() -> None:
    sampler = sampler_with(
        stream_answer("COPY", 3, mirror=upstream_answer("ORIGIN", lag=4)),
        metrics='headwater_stream_table_bytes{stream_name="COPY"} 77\n',
        consumers={"COPY": [{"num_pending": 2}, {"num_pending": 3}]},
    )
    row = streams_view(sampler, {})["rows"]["local/COPY"]
    assert (row["messages"], row["lag"], row["table"], row["pending"]) == (3, 4, 77, 5)


def test_streams_that_could_not_be_opened_are_listed_as_bad() -> None:
    sampler = sampler_with(stream_answer("A"), offline={"B": "a file is damaged"})
    row = streams_view(sampler, {})["rows"]["local/B"]
    assert (row["health"], row["why"]) == ("bad", "a file is damaged")


def test_the_list_can_be_of_one_site() -> None:
    sampler = sampler_with(stream_answer("A"))
    assert streams_view(sampler, {"site": "other"})["rows"] == {}
    assert list(streams_view(sampler, {"site": "local"})["rows"]) == ["local/A"]
