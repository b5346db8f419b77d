"""Normalisation hides what may differ, and nothing else."""

import pytest

from conformance.normal import ZERO_TIME, normalise


@pytest.mark.parametrize("time", ["2026-01-02T03:04:05Z", "2026-01-02T03:04:05.123456789Z"])
def test_a_time_of_the_right_form_becomes_a_placeholder(time: str) -> None:
    assert normalise({"state": {"first_ts": time}}) == {"state": {"first_ts": "<time>"}}


@pytest.mark.parametrize(
    "time",
    ["2026-01-02T03:04:05.120Z", "2026-01-02T03:04:05+00:00", "2026-01-02 03:04:05Z", ZERO_TIME, 7, None],
)
def test_a_time_of_another_form_stays(time: object) -> None:
    assert normalise({"created": time}) == {"created": time}


def test_identifiers_versions_and_servers_become_placeholders() -> None:
    answer = {
        "id": "0123456789abcdefghijAB",
        "cluster": {"leader": "NX"},
        "metadata": {"_nats.ver": "2.15.1"},
    }
    expected = {"id": "<id>", "cluster": {"leader": "<server>"}, "metadata": {"_nats.ver": "<version>"}}
    assert normalise(answer) == expected


def test_sequences_bytes_and_totals_stay() -> None:
    answer = {"total": 3, "state": {"bytes": 5, "first_seq": 1}, "streams": [{"seq": 9}]}
    assert normalise(answer) == answer


def test_only_the_counts_of_api_calls_are_hidden() -> None:
    answer = {"api": {"level": 5, "total": 12, "errors": 0, "inflight": 1}}
    assert normalise(answer) == {"api": {"level": 5, "total": "<count>", "errors": "<count>"}}


def test_of_an_upstream_only_activity_position_and_our_own_extension_are_hidden() -> None:
    status = {"name": "O", "lag": 3, "active": 7, "seq": 9}
    shown = {"name": "O", "lag": 3, "active": "<nanoseconds>", "seq": "<position>"}
    assert normalise({"mirror": status | {"headwater": {}}, "sources": [status | {"name": "P"}, status]}) == {
        "mirror": shown,
        "sources": [shown, shown | {"name": "P"}],
    }
    assert normalise({"config": {"mirror": {"name": "O"}}}) == {"config": {"mirror": {"name": "O"}}}
