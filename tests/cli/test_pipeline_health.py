"""The health of a pipeline."""

from __future__ import annotations

from typing import Any

from headwater.cli.pipeline_health import judge_pipeline


def info(**given: Any) -> dict[str, Any]:
    usual = {"config": {"name": "P"}, "state": "running", "problem": "", "lag": 0}
    return {**usual, "rate": 1.5, "state_rows": 2, "starts": 1, **given}


def test_a_running_pipeline_is_healthy() -> None:
    assert judge_pipeline(info(), 0, 0).status == "OK"


def test_a_failing_pipeline_is_critical_and_a_paused_one_a_warning() -> None:
    failing = judge_pipeline(info(state="failing", problem="trimmed"), 0, 0)
    assert failing.status == "CRITICAL"
    assert failing.criticals == ["failing: trimmed"]
    assert judge_pipeline(info(state="paused"), 0, 0).status == "WARNING"
    assert judge_pipeline(info(state="starting"), 0, 0).status == "WARNING"


def test_a_lag_is_judged_by_its_thresholds() -> None:
    assert judge_pipeline(info(lag=10), 10, 0).status == "WARNING"
    assert judge_pipeline(info(lag=10), 5, 10).status == "CRITICAL"
    assert judge_pipeline(info(lag=9), 10, 20).status == "OK"
    assert judge_pipeline(info(lag=None), 0, 0).status == "OK"
    assert judge_pipeline(info(lag=None), 10, 0).status == "UNKNOWN"
