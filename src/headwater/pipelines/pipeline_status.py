"""The state of a pipeline as clients and pages see it: what its query does, and how far it is behind."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from headwater.model.times import format_time
from headwater.wire.pipeline import Pipeline, QueryReport, ReadOffset

Json = dict[str, Any]


class PipelineState(StrEnum):
    """What a pipeline does."""

    RUNNING = "running"
    STARTING = "starting"
    PAUSED = "paused"
    FAILING = "failing"


class InputEnd(NamedTuple):
    """A stream that a pipeline reads, as it is now."""

    name: str
    created: str
    last_seq: int


class InputProgress(NamedTuple):
    """How far a pipeline has read a stream."""

    name: str
    seq: int | None
    """The last sequence that was read; None if that is not known."""
    lag: int | None
    """How many sequences are not read yet."""


@dataclass(frozen=True)
class PipelineStatus:
    """The state of one pipeline."""

    pipeline: Pipeline
    state: PipelineState
    problem: str
    inputs: tuple[InputProgress, ...]
    report: QueryReport | None
    """What its query reported last; None if nothing."""

    @property
    def lag(self) -> int | None:
        """Return how many sequences are not read yet; None if that is not known."""
        known = [each.lag for each in self.inputs if each.lag is not None]
        return sum(known) if len(known) == len(self.inputs) else None

    def json(self) -> Json:
        """Return the answer to a request for a pipeline's info."""
        report = self.report or QueryReport(id=self.pipeline.id, is_running=False)
        declared: Json = msgspec.to_builtins(self.pipeline)
        return {
            "config": {**declared, "created": format_time(self.pipeline.created_ns)},
            "state": self.state.value,
            "problem": self.problem,
            "lag": self.lag,
            "inputs": [{"stream": each.name, "read_seq": each.seq, "lag": each.lag} for each in self.inputs],
            "rate": report.rate if self.state is PipelineState.RUNNING else 0.0,
            "messages_in": report.messages_in,
            "batch": report.batch,
            "batch_ms": report.batch_ms,
            "state_rows": report.state_rows,
            "watermark": report.watermark,
            "starts": report.starts,
        }


def status_of(
    pipeline: Pipeline,
    report: QueryReport | None,
    offsets: Iterable[ReadOffset],
    ends: Mapping[str, InputEnd],
    *,
    has_target: bool,
    runner_problem: str,
) -> PipelineStatus:
    """Return the state of a pipeline; `runner_problem` is empty while a runner answers."""
    problem = _problem(pipeline, report, ends, has_target=has_target, runner_problem=runner_problem)
    if pipeline.paused:
        state = PipelineState.PAUSED
    elif problem:
        state = PipelineState.FAILING
    else:
        state = PipelineState.RUNNING if report and report.is_running else PipelineState.STARTING
    read: dict[str, int] = {}
    for each in offsets:
        # A stream that is read twice was read as far as the slower of both.
        read[each.created] = min(each.seq, read.get(each.created, each.seq))
    inputs = tuple(_progress(name, ends.get(name), read) for name in pipeline.inputs)
    return PipelineStatus(pipeline, state, problem, inputs, report)


def _problem(
    pipeline: Pipeline,
    report: QueryReport | None,
    ends: Mapping[str, InputEnd],
    *,
    has_target: bool,
    runner_problem: str,
) -> str:
    missing = next((name for name in pipeline.inputs if name not in ends), None)
    if missing is not None:
        return f"stream {missing!r}, which it reads, does not exist"
    if not has_target:
        return f"stream {pipeline.target!r}, which it writes to, does not exist"
    if pipeline.paused:
        return ""
    return runner_problem or (report.problem if report is not None else "")


def _progress(name: str, end: InputEnd | None, read: Mapping[str, int]) -> InputProgress:
    seq = read.get(end.created) if end is not None else None
    lag = max(end.last_seq - seq, 0) if end is not None and seq is not None else None
    return InputProgress(name, seq, lag)
