"""Every rule names what is wrong and what to do, and a healthy site has no entry."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from headwater.client.connection_settings import ConnectionSettings
from headwater.console.attention import CRITICAL, NOTICE, WARNING, Attention, attention_view, grows, rules
from headwater.console.sampler import Sampler
from headwater.console.scraped_metrics import ScrapedMetrics
from headwater.console.snapshot import SiteSnapshot
from headwater.console.watched_site import WatchedSite

GROWING = [float(100 + 50 * number) for number in range(30)]


def info(name: str = "ORDERS", state: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    config = {"name": name, **more.pop("config", {})}
    return {"config": config, "state": {"messages": 0, "bytes": 0, **(state or {})}, **more}


def of(past: Sequence[float | None] = (), **values: Any) -> list[Attention]:
    """Return what the rules say about a site with these values."""
    streams = {each["config"]["name"]: each for each in values.pop("streams", ())}
    snapshot = SiteSnapshot("hub", 1_700_000_000.0, streams=streams, **values)
    return list(rules(snapshot, lambda key, points: past))


def source(**values: Any) -> dict[str, Any]:
    return {"name": "ORIGIN", "lag": 0, "active": 1_000_000, **values}


def test_a_healthy_site_needs_no_attention() -> None:
    consumer = {
        "name": "c",
        "config": {"max_ack_pending": 1000, "ack_policy": "explicit"},
        "num_ack_pending": 5,
    }
    found = of(
        streams=[info(sources=[source()])],
        consumers={"ORDERS": [consumer]},
        readiness={"checks": {"engine": "ok", "disk": "ok"}},
        metrics=ScrapedMetrics("headwater_disk_size_bytes 100\nheadwater_disk_free_bytes 50\n"),
        account={"storage": 10, "limits": {"max_storage": -1}},
    )
    assert found == []


@pytest.mark.parametrize(
    ("values", "severity", "words"),
    [
        ({"error": "cannot connect to nats://x"}, CRITICAL, "cannot connect"),
        ({"metrics_error": "cannot read /metrics"}, NOTICE, "cannot read /metrics"),
        ({"readiness": {"checks": {"journal": "stale"}}}, CRITICAL, "not ready: stale"),
        ({"readiness": {"checks": {"new": "odd"}}}, CRITICAL, "not ready: odd"),
        ({"offline": {"OLD": "damaged"}}, CRITICAL, "could not be opened: damaged"),
        ({"streams": [info(headwater={"error": "no space left"})]}, CRITICAL, "no space left"),
        (
            {"streams": [info(config={"discard": "new", "max_msgs": 10}, state={"messages": 9})]},
            WARNING,
            "90% of the messages",
        ),
        (
            {"streams": [info(config={"discard": "new", "max_bytes": 100}, state={"bytes": 99})]},
            WARNING,
            "99% of the bytes",
        ),
        (
            {"streams": [info(config={"num_replicas": 3}, cluster={"name": "c"})]},
            CRITICAL,
            "no leader",
        ),
        (
            {
                "streams": [
                    info(sources=[source(error={"err_code": 10059, "description": "stream not found"})])
                ]
            },
            CRITICAL,
            "nothing is copied: stream not found",
        ),
        (
            {"streams": [info(mirror=source(headwater={"phase": "stalled"}))]},
            CRITICAL,
            "the copy is stalled",
        ),
        (
            {
                "streams": [
                    info(
                        sources=[
                            source(
                                headwater={
                                    "gaps": {
                                        "count": 1,
                                        "sequences": 7,
                                        "recent": [{"first_seq": 1, "last_seq": 7, "reason": "retention"}],
                                    }
                                }
                            )
                        ]
                    )
                ]
            },
            WARNING,
            "removed 7 sequences before they were copied, last by retention",
        ),
        (
            {"metrics": ScrapedMetrics("headwater_disk_size_bytes 100\nheadwater_disk_free_bytes 8\n")},
            WARNING,
            "8% of the store's disk",
        ),
        (
            {"metrics": ScrapedMetrics("headwater_disk_size_bytes 100\nheadwater_disk_free_bytes 2\n")},
            CRITICAL,
            "2% of the store's disk",
        ),
        (
            {
                "consumers": {
                    "ORDERS": [
                        {
                            "name": "c",
                            "config": {"max_ack_pending": 3, "ack_policy": "explicit"},
                            "num_ack_pending": 3,
                        }
                    ]
                }
            },
            CRITICAL,
            "3 messages wait for their ack",
        ),
        (
            {"consumers": {"ORDERS": [{"name": "c", "num_redelivered": 50}]}},
            WARNING,
            "50 messages without an ack",
        ),
        ({"account": {"storage": 95, "limits": {"max_storage": 100}}}, WARNING, "95% of the bytes"),
    ],
)
def test_each_rule_says_what_is_wrong_and_what_to_do(values: Any, severity: str, words: str) -> None:
    (found,) = of(**values)
    assert found.severity == severity
    assert words in found.sentence
    assert len(found.remedy) > 10


def test_a_lag_that_grows_is_reported_and_one_that_falls_is_not() -> None:
    streams = [info(sources=[source(lag=1500)])]
    (found,) = of(GROWING, streams=streams)
    assert "the lag grows" in found.sentence
    assert of(list(reversed(GROWING)), streams=streams) == []
    assert not grows([None] * 30)
    assert not grows([1.0, 2.0, 3.0] * 10)
    assert not grows(GROWING[:10])


def test_a_full_stream_that_discards_old_messages_is_fine() -> None:
    assert of(streams=[info(config={"discard": "old", "max_msgs": 10}, state={"messages": 10})]) == []


async def test_the_worst_comes_first_over_all_sites() -> None:
    sites = [WatchedSite(name, ConnectionSettings()) for name in ("a", "b")]
    sampler = Sampler(sites)
    sampler.site("a").snapshot = SiteSnapshot("a", 1.0, metrics_error="no answer")
    sampler.site("b").snapshot = SiteSnapshot("b", 1.0, offline={"OLD": "damaged"})
    view = attention_view(sampler, {})
    assert [(each["severity"], each["site"]) for each in view["entries"]] == [(CRITICAL, "b"), (NOTICE, "a")]
    assert view["counts"] == {CRITICAL: 1, WARNING: 0, NOTICE: 1}
    assert view["hidden"] == 0


def test_a_pipeline_that_fails_is_critical_and_one_that_runs_is_not() -> None:
    config = {"name": "TOTALS", "target": "OUT", "inputs": ["IN"]}
    running = {"config": config, "state": "running", "problem": ""}
    assert of(pipelines=[running]) == []
    (found,) = of(pipelines=[{**running, "state": "failing", "problem": "the checkpoint is missing"}])
    assert (found.severity, found.about, found.stream) == (CRITICAL, "pipeline TOTALS", "OUT")
    assert "the checkpoint is missing" in found.sentence
