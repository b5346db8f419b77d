"""An engine's numbers come from its metrics; a plain nats-server has none."""

from __future__ import annotations

from consoles import sampler_with, stream_answer
from headwater.console.engine_view import engine_numbers, engine_view, pipeline_cells
from headwater.console.scraped_metrics import ScrapedMetrics

TEXT = """headwater_disk_free_bytes 5
headwater_stream_log_bytes{stream_name="A"} 2
headwater_stream_log_bytes{stream_name="B"} 3
headwater_fold_seconds_count 4
headwater_fold_seconds_sum 2
headwater_engine_phase{phase="standby"} 0
headwater_engine_phase{phase="serving"} 1
"""


def test_sums_means_and_the_phase_are_derived() -> None:
    found = engine_numbers(ScrapedMetrics(TEXT))
    assert (found["disk_free"], found["log"], found["fold_mean"], found["phase"]) == (5, 5, 0.5, "serving")
    assert "memory" not in found


def test_a_plain_server_has_an_account_and_no_numbers() -> None:
    sampler = sampler_with(stream_answer("A"), account={"streams": 1, "domain": "hub"})
    [found] = engine_view(sampler, {})["engines"].values()
    assert (found["domain"], found["account"], "numbers" in found) == ("hub", {"streams": 1}, False)


def test_readiness_and_warnings_are_shown() -> None:
    readiness = {"ready": False, "checks": {"disk": "full"}}
    sampler = sampler_with(
        metrics=TEXT, readiness=readiness, warnings=[{"message": "slow", "level": "warning"}]
    )
    [found] = engine_view(sampler, {})["engines"].values()
    assert found["readiness"] == readiness
    assert found["warnings"][0]["message"] == "slow"


def test_pipelines_are_shown_with_state_and_lag() -> None:
    config = {"name": "P", "inputs": ["A"], "target": "T", "sql": "SELECT 1"}
    shown = pipeline_cells(
        {"config": config, "state": "failing", "problem": "trimmed", "lag": None, "rate": 0.0}
    )
    assert shown["name"] == "P"
    assert (shown["inputs"], shown["target"], shown["state"]) == (["A"], "T", "failing")
    assert (shown["problem"], shown["lag"], shown["state_rows"]) == ("trimmed", None, None)
