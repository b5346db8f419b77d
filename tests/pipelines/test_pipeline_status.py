"""The state and the lag of a pipeline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec

from headwater.pipelines.pipeline_status import InputEnd, PipelineState, PipelineStatus, status_of
from headwater.wire.pipeline import Pipeline, QueryReport, ReadOffset

PIPELINE = Pipeline(name="P", id="i", created_ns=1, target="T", sql="SELECT 1", inputs=("A", "B"))
ENDS = {"A": InputEnd("A", "t1", 10), "B": InputEnd("B", "t2", 20)}
READ = (ReadOffset(10, "t1"), ReadOffset(15, "t2"))
RUNNING = QueryReport(id="i", is_running=True, rate=5.0)


def status(**given: Any) -> PipelineStatus:
    values: dict[str, Any] = {"pipeline": PIPELINE, "report": RUNNING, "offsets": READ, "ends": ENDS}
    values |= {"has_target": True, "runner_problem": ""} | given
    return status_of(**values)


def test_the_lag_is_what_is_not_read_of_all_inputs() -> None:
    found = status()
    assert found.state is PipelineState.RUNNING
    assert found.lag == 5
    assert [each.lag for each in found.inputs] == [0, 5]
    assert found.json()["rate"] == 5.0


def test_a_stream_that_is_read_twice_counts_as_far_as_the_slower() -> None:
    assert status(offsets=(*READ, ReadOffset(4, "t1"))).lag == 11


def test_a_lag_is_unknown_before_the_first_batch_and_for_a_recreated_stream() -> None:
    assert status(offsets=()).lag is None
    assert status(ends={**ENDS, "A": InputEnd("A", "later", 3)}).lag is None


def test_a_problem_of_streams_the_runner_or_the_query_is_shown() -> None:
    failed = QueryReport(id="i", is_running=False, problem="trimmed")
    assert status(report=failed).problem == "trimmed"
    assert status(report=failed).state is PipelineState.FAILING
    assert status(runner_problem="no Java").problem == "no Java"
    assert "'T', which it writes to" in status(has_target=False).problem
    assert "'B', which it reads" in status(ends={"A": ENDS["A"]}).problem


def test_a_pipeline_without_a_report_is_starting_and_a_paused_one_is_paused() -> None:
    assert status(report=None).state is PipelineState.STARTING
    paused = msgspec.structs.replace(PIPELINE, paused=True)
    found = status(pipeline=paused, runner_problem="no Java")
    assert found.state is PipelineState.PAUSED
    assert found.problem == ""
    assert replace(found, report=None).json()["batch"] == -1
