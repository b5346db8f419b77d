"""Pipelines in the metrics."""

from __future__ import annotations

from headwater.monitor.exposition import Exposition, labels
from headwater.monitor.pipeline_numbers import pipeline_row, write_pipelines
from headwater.pipelines.pipeline_status import InputEnd, PipelineStatus, status_of
from headwater.wire.pipeline import Pipeline, QueryReport, ReadOffset
from monitor.families import Samples, parsed

PIPELINE = Pipeline(name="P", id="i", created_ns=1, target="T", sql="SELECT 1", inputs=("A",))
ENDS = {"A": InputEnd("A", "t", 10)}
REPORT = QueryReport(
    id="i", is_running=True, batch=3, batch_ms=1500, rate=7.0, messages_in=20, state_rows=4, starts=2
)


def status(report: QueryReport | None, offsets: tuple[ReadOffset, ...]) -> PipelineStatus:
    return status_of(PIPELINE, report, offsets, ENDS, has_target=True, runner_problem="")


def shown(found: PipelineStatus) -> Samples:
    exposition = Exposition()
    write_pipelines(exposition, [pipeline_row(found, labels(account="$G"))])
    return parsed(exposition.text())


def test_lag_rate_and_state_are_shown() -> None:
    found = shown(status(REPORT, (ReadOffset(4, "t"),)))
    named = {"account": "$G", "pipeline": "P", "target": "T"}
    assert found["headwater_pipeline_lag"] == [(named, 6.0)]
    assert found["headwater_pipeline_messages_per_second"] == [(named, 7.0)]
    assert found["headwater_pipeline_batch_seconds"] == [(named, 1.5)]
    assert found["headwater_pipeline_state_rows"] == [(named, 4.0)]
    assert found["headwater_pipeline_messages_total"] == [(named, 20.0)]
    assert found["headwater_pipeline_starts_total"] == [(named, 2.0)]
    states = {each["state"]: value for each, value in found["headwater_pipeline_state"]}
    assert states == {"running": 1.0, "starting": 0.0, "paused": 0.0, "failing": 0.0}


def test_what_is_unknown_is_absent() -> None:
    found = shown(status(None, ()))
    assert "headwater_pipeline_lag" not in found
    assert "headwater_pipeline_batch_seconds" not in found
    assert found["headwater_pipeline_messages_per_second"][0][1] == 0.0
