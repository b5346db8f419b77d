"""The numbers of pipelines, and the families that show them."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.monitor.exposition import Exposition, Family, joined, labels, samples
from headwater.pipelines.pipeline_status import PipelineState, PipelineStatus

PipelineRow = tuple[str, PipelineStatus]
"""The labels of a pipeline, and its state."""

_GAUGES: tuple[Family[PipelineStatus], ...] = (
    Family(
        "headwater_pipeline_lag",
        "Messages of its inputs that the pipeline has not read yet; absent while that is unknown.",
        lambda row: row.lag,
    ),
    Family(
        "headwater_pipeline_messages_per_second",
        "Messages that the pipeline read a second in its last batch.",
        lambda row: row.report.rate if row.report and row.state is PipelineState.RUNNING else 0.0,
    ),
    Family(
        "headwater_pipeline_batch_seconds",
        "Time of the last batch; absent before the first.",
        lambda row: row.report.batch_ms / 1e3 if row.report and row.report.batch >= 0 else None,
    ),
    Family(
        "headwater_pipeline_state_rows",
        "Rows that the pipeline keeps for windows, joins and aggregations.",
        lambda row: row.report.state_rows if row.report else None,
    ),
)
_COUNTERS: tuple[Family[PipelineStatus], ...] = (
    Family(
        "headwater_pipeline_messages",
        "Messages that the pipeline read since its runner started.",
        lambda row: row.report.messages_in if row.report else 0,
    ),
    Family(
        "headwater_pipeline_starts",
        "How often the query was started since its runner started.",
        lambda row: row.report.starts if row.report else 0,
    ),
)


def pipeline_row(status: PipelineStatus, of_account: str) -> PipelineRow:
    """Return a pipeline with its labels; `of_account` are those of its account."""
    pipeline = status.pipeline
    return joined(of_account, labels(pipeline=pipeline.name, target=pipeline.target)), status


def write_pipelines(exposition: Exposition, rows: Sequence[PipelineRow]) -> None:
    """Write the families of all pipelines."""
    states = [
        (joined(own, labels(state=str(state))), status.state is state)
        for own, status in rows
        for state in PipelineState
    ]
    exposition.gauge("headwater_pipeline_state", "1 for the state that the pipeline is in.", states)
    for family in _GAUGES:
        exposition.gauge(family.name, family.help, samples(family, rows))
    for family in _COUNTERS:
        exposition.counter(family.name, family.help, samples(family, rows))
