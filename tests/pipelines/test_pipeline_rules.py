"""What a client may declare."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.model.stream import Retention, StreamConfig
from headwater.pipelines.pipeline_rules import MOST_SQL_BYTES, check_name, check_request, check_streams
from headwater.wire.pipeline import PipelineRequest, PipelineRequestError

STREAMS = {
    "A": StreamConfig(name="A", subjects=("a.>",)),
    "a": StreamConfig(name="a", subjects=("b.>",)),
    "T": StreamConfig(name="T", subjects=("t.*",)),
    "Q": StreamConfig(name="Q", subjects=("q",), retention=Retention.WORKQUEUE),
    "SEALED": StreamConfig(name="SEALED", subjects=("s",), sealed=True),
}


def request(**fields: Any) -> PipelineRequest:
    return PipelineRequest(**{"target": "T", "sql": "SELECT 1", **fields})


@pytest.mark.parametrize("name", ["", "a.b", "a b", "x" * 65, "../x", "a*", "a\x00b", "a\nb"])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(PipelineRequestError, match="no name of a pipeline"):
        check_name(name)


def test_usual_names_are_accepted() -> None:
    for name in ("TOTALS", "per-minute_2", "Größe"):
        check_name(name)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"sql": ""}, "SQL or a function"),
        ({"function": "m:f"}, "SQL or a function"),
        ({"sql": "x" * (MOST_SQL_BYTES + 1)}, "more than 16 KiB"),
        ({"sql": "", "function": "os:system", "inputs": ("A",)}, "it allows m:f"),
        ({"sql": "", "function": "m:f"}, "names of the streams"),
        ({"output": "complete"}, "append or update"),
        ({"every_s": 0.0}, "every 0.1 s"),
        ({"every_s": float("nan")}, "every 0.1 s"),
        ({"max_messages": 0}, "1 to 1,000,000"),
        ({"start_seq": -1}, "at a sequence or at a time"),
        ({"start_seq": 1, "start_time": "2026-01-01T00:00:00Z"}, "at a sequence or at a time"),
        ({"start_time": "yesterday"}, "RFC 3339"),
    ],
)
def test_a_request_that_contradicts_itself_is_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(PipelineRequestError, match=why):
        check_request(request(**fields), ["m:f"])


def test_functions_are_refused_without_a_list() -> None:
    with pytest.raises(PipelineRequestError, match="allows none"):
        check_request(request(sql="", function="m:f", inputs=("A",)), [])


@pytest.mark.parametrize(
    ("fields", "inputs", "why"),
    [
        ({}, [], "1 to 8 streams"),
        ({}, [f"S{n}" for n in range(9)], "1 to 8 streams"),
        ({}, ["A", "a"], "differ in case"),
        ({}, ["NONE"], "no stream 'NONE' to read"),
        ({}, ["Q"], "has retention workqueue"),
        ({"target": "NONE"}, ["A"], "no stream 'NONE' to write to"),
        ({"target": "A"}, ["A"], "both read and written"),
        ({"target": "SEALED"}, ["A"], "a mirror or sealed"),
        ({"subject": "t.>"}, ["A"], "no subject of a message"),
        ({"subject": "other"}, ["A"], "does not store subject"),
    ],
)
def test_streams_that_do_not_fit_are_refused(fields: dict[str, Any], inputs: list[str], why: str) -> None:
    with pytest.raises(PipelineRequestError, match=why):
        check_streams(request(**fields), inputs, STREAMS.get)


def test_streams_that_fit_are_accepted() -> None:
    check_request(request(every_s=10.0, start_time="2026-01-01T00:00:00Z"), [])
    check_streams(request(subject="t.x"), ["A"], STREAMS.get)
