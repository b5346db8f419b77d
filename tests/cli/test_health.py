"""The health of a stream: each threshold at its edge, and trouble that needs no threshold."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.cli.health import CRITICAL, OK, UNKNOWN, WARNING, Health, Thresholds, judge
from headwater.errors import SettingsError
from headwater.model.times import SECOND, parse_duration


def info(**given: Any) -> dict[str, Any]:
    """Return a stream's info with 10 messages in 3 subjects."""
    plain: dict[str, Any] = {
        "config": {"name": "ORDERS", "num_replicas": 1},
        "state": {"messages": 10, "num_subjects": 3},
    }
    return {**plain, **given}


def upstream(name: str = "ORIGIN", **given: Any) -> dict[str, Any]:
    return {"name": name, "lag": 5, "active": 2 * SECOND, **given}


def nanoseconds(text: str) -> int:
    found = parse_duration(text)
    if found is None:
        raise ValueError(text)
    return found


def test_a_stream_without_upstreams_is_well() -> None:
    health = judge(info(), Thresholds())
    assert (health.status, health.exit_code, health.oks) == (OK, 0, ["0 sources"])


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        (Thresholds(msgs_warn=9, msgs_critical=8), OK),
        (Thresholds(msgs_warn=10), WARNING),
        (Thresholds(msgs_warn=20, msgs_critical=10), CRITICAL),
        (Thresholds(subjects_warn=4, subjects_critical=5), OK),
        (Thresholds(subjects_warn=3, subjects_critical=5), WARNING),
        (Thresholds(subjects_warn=2, subjects_critical=3), CRITICAL),
        (Thresholds(subjects_warn=2, subjects_critical=1), OK),
        (Thresholds(subjects_warn=3, subjects_critical=2), WARNING),
        (Thresholds(subjects_warn=9, subjects_critical=3), CRITICAL),
        (Thresholds(subjects_warn=3), WARNING),
        (Thresholds(subjects_critical=3), CRITICAL),
        (Thresholds(min_sources=1), CRITICAL),
        (Thresholds(lag_critical=1), CRITICAL),
        (Thresholds(peer_expect=3), CRITICAL),
    ],
)
def test_messages_subjects_and_what_a_plain_stream_lacks(limits: Thresholds, status: str) -> None:
    assert judge(info(), limits).status == status


@pytest.mark.parametrize(
    ("limits", "criticals"),
    [
        (Thresholds(lag_critical=6, seen_critical=3 * SECOND), []),
        (Thresholds(lag_critical=5), ["Mirror Lag 5"]),
        (Thresholds(seen_critical=2 * SECOND), ["Mirror Seen 2s"]),
        (Thresholds(lag_critical=1, seen_critical=1), ["Mirror Lag 5", "Mirror Seen 2s"]),
    ],
)
def test_a_mirror_that_lags_or_is_silent(limits: Thresholds, criticals: list[str]) -> None:
    health = judge(info(mirror=upstream()), limits)
    assert health.criticals == criticals
    assert ("Mirror ORIGIN" in health.oks) == (not criticals)


def test_a_mirror_that_never_was_seen_is_inactive() -> None:
    health = judge(info(mirror=upstream(active=-1)), Thresholds(seen_critical=SECOND))
    assert health.criticals == ["Mirror Seen never"]


@pytest.mark.parametrize(
    ("limits", "criticals"),
    [
        (Thresholds(min_sources=2, max_sources=2, lag_critical=100, seen_critical=60 * SECOND), []),
        (Thresholds(min_sources=3), ["2 sources"]),
        (Thresholds(max_sources=1), ["2 sources"]),
        (Thresholds(lag_critical=6), ["1 sources are lagged"]),
        (Thresholds(seen_critical=2 * SECOND), ["2 sources are inactive"]),
    ],
)
def test_sources_that_lag_are_silent_or_too_many(limits: Thresholds, criticals: list[str]) -> None:
    sources = [upstream("A"), upstream("B", lag=6)]
    assert judge(info(sources=sources), limits).criticals == criticals


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("mirror", "Mirror ORIGIN: stream not found (10059)"),
        ("sources", "Source ORIGIN: stream not found (10059)"),
    ],
)
def test_an_upstream_with_an_error_is_critical_without_any_threshold(key: str, words: str) -> None:
    stuck = upstream(error={"code": 404, "err_code": 10059, "description": "stream not found"})
    assert judge(info(**{key: stuck if key == "mirror" else [stuck]}), Thresholds()).criticals == [words]


def clustered(**given: Any) -> dict[str, Any]:
    peers = [
        {"name": "n2", "lag": 1, "active": SECOND, "current": True},
        {"name": "n3", "lag": 0, "active": 0},
    ]
    cluster = {"name": "c", "leader": "n1", "replicas": peers, **given}
    return info(config={"name": "ORDERS", "num_replicas": 3}, cluster=cluster)


@pytest.mark.parametrize(
    ("found", "limits", "criticals"),
    [
        (clustered(), Thresholds(peer_expect=3, peer_lag_critical=1, peer_seen_critical=SECOND), []),
        (clustered(), Thresholds(peer_expect=5), ["Expected 5 replicas got 3"]),
        (clustered(), Thresholds(peer_seen_critical=SECOND - 1), ["1 replicas inactive"]),
        (
            clustered(replicas=[{"name": "n2", "lag": 2, "active": 0, "offline": True}]),
            Thresholds(peer_expect=2, peer_lag_critical=1),
            ["1 replicas offline", "1 replicas lagged"],
        ),
        (clustered(leader=""), Thresholds(), ["No leader"]),
    ],
)
def test_the_peers_of_a_clustered_stream(
    found: dict[str, Any], limits: Thresholds, criticals: list[str]
) -> None:
    assert judge(found, limits).criticals == criticals


def test_thresholds_stand_in_the_metadata_and_flags_overrule_them() -> None:
    metadata = {
        "io.nats.monitor.lag-critical": "200",
        "io.nats.monitor.seen-critical": "5m",
        "io.nats.monitor.peer-seen-critical": "1s",
    }
    limits = Thresholds.of({"lag_critical": 7, "msgs_warn": None}, metadata, nanoseconds)
    assert limits == Thresholds(lag_critical=7, seen_critical=300 * SECOND, peer_seen_critical=SECOND)


@pytest.mark.parametrize("kind", ["mirror", "sources"])
@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({"active": -1, "lag": 0}, UNKNOWN),
        ({"lag": 0, "headwater": {"phase": "retrying"}}, UNKNOWN),
        ({"lag": 0, "error": {"err_code": 10039, "description": "away"}}, CRITICAL),
        ({"lag": 0, "headwater": {"done": 1.0}}, OK),
    ],
)
def test_an_unknown_lag_is_not_zero(kind: str, given: dict[str, Any], status: str) -> None:
    stuck = upstream(**given)
    health = judge(info(**{kind: stuck if kind == "mirror" else [stuck]}), Thresholds(lag_critical=1))
    assert health.status == status
    (lag,) = [figure.value for figure in health.figures if figure.name in ("lag", "sources_lag")]
    assert lag == (0 if status == OK else None)
    assert ("1 sources current" in health.oks) == (status == OK and kind == "sources")


def test_a_stream_that_can_store_nothing_is_critical_without_any_threshold() -> None:
    health = judge(info(headwater={"error": "cannot write x: the disk is full"}), Thresholds())
    assert health.criticals == ["cannot store messages: cannot write x: the disk is full"]


def test_the_lags_of_sources_are_a_figure() -> None:
    health = judge(info(sources=[upstream("A"), upstream("B", lag=6)]), Thresholds())
    assert [figure.value for figure in health.figures if figure.name == "sources_lag"] == [11]


@pytest.mark.parametrize("kind", ["mirror", "sources"])
@pytest.mark.parametrize(("limit", "status"), [(0, OK), (2001, OK), (2000, CRITICAL), (1, CRITICAL)])
def test_what_was_gone_before_it_was_copied_is_seen(kind: str, limit: int, status: str) -> None:
    lossy = upstream(headwater={"done": 1.0, "gaps": {"count": 1, "sequences": 2000}})
    health = judge(info(**{kind: lossy if kind == "mirror" else [lossy]}), Thresholds(gaps_critical=limit))
    assert health.status == status
    assert any("removed 2000 sequences" in words for words in health.oks + health.criticals)
    assert [figure.value for figure in health.figures if figure.name == "gaps"] == [2000]


def test_a_server_that_does_not_report_gaps_has_an_unknown_number_of_them() -> None:
    assert judge(info(mirror=upstream()), Thresholds(gaps_critical=1)).status == UNKNOWN
    assert judge(info(mirror=upstream()), Thresholds()).status == OK


@pytest.mark.parametrize("key", ["lag-critical", "seen-critical"])
def test_a_threshold_without_sense_in_the_metadata_is_named(key: str) -> None:
    with pytest.raises(SettingsError, match=key):
        Thresholds.of({}, {f"io.nats.monitor.{key}": "soon"}, nanoseconds)


def test_the_gravest_finding_is_the_status() -> None:
    health = Health("X", oks=["fine"], warnings=["hm"])
    assert health.exit_code == 1
    health.unknowns.append("what")
    assert (health.status, health.exit_code) == (UNKNOWN, 3)
    health.criticals.append("oh")
    assert health.exit_code == 2


@pytest.mark.parametrize("kind", ["mirror", "sources"])
@pytest.mark.parametrize(
    ("progress", "status"),
    [
        ({"headwater": {"behind": 59.9}}, OK),
        ({"headwater": {"behind": 60}}, CRITICAL),
        ({"headwater": {"phase": "starting"}}, UNKNOWN),
        ({}, UNKNOWN),
    ],
)
def test_the_age_of_what_is_to_be_copied(kind: str, progress: dict[str, Any], status: str) -> None:
    one = upstream(**progress)
    limits = Thresholds.of({}, {"io.nats.monitor.behind-critical": "1m"}, nanoseconds)
    assert judge(info(**{kind: [one] if kind == "sources" else one}), limits).status == status
