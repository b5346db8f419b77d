"""Replies of a JetStream API as values: what is unknown is None, never 0."""

from __future__ import annotations

from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headwater.client.stream_info import UpstreamGap, stream_info, upstream_infos
from headwater.errors import Error
from headwater.model.progress import Phase
from headwater.model.times import SECOND
from stream_infos import info

NOW = datetime(2026, 1, 2, 3, 5, tzinfo=UTC)


def upstream(**fields: Any) -> dict[str, Any]:
    """Return an upstream's status as a plain nats-server reports it."""
    return {"name": "ORDERS", "lag": 7, "active": 2 * SECOND, **fields}


def test_a_stream_without_upstreams_has_a_state_and_no_lag() -> None:
    given = info(
        "S",
        config={"subjects": ["s.>"]},
        state={"messages": 3, "last_seq": 9, "last_ts": "2026-01-02T03:05:00.123456789Z"},
    )
    found = stream_info(given)
    assert (found.name, found.subjects, found.messages, found.last_seq) == ("S", ("s.>",), 3, 9)
    assert found.created == datetime(2026, 1, 2, 3, 4, 5, 123000, tzinfo=UTC)
    assert found.last_time == datetime(2026, 1, 2, 3, 5, 0, 123456, tzinfo=UTC)
    assert (found.first_time, found.error, found.upstreams, found.lag) == (None, None, (), 0)
    assert found.config["duplicate_window"] == 120 * SECOND


def test_values_cannot_be_changed() -> None:
    found = stream_info(info("S", mirror=upstream()))
    with pytest.raises(FrozenInstanceError):
        found.messages = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        found.config["name"] = "T"  # type: ignore[index]


def test_a_plain_server_reports_the_lag_and_when_the_origin_was_seen() -> None:
    external = {"api": "$JS.hub.API", "deliver": ""}
    (found,) = upstream_infos({"mirror": upstream(external=external)}, NOW)
    assert (found.name, found.is_mirror, found.api_prefix, found.lag) == ("ORDERS", True, "$JS.hub.API", 7)
    assert (found.silent_s, found.last_seen) == (2.0, NOW - timedelta(seconds=2))
    assert (found.phase, found.seq, found.gap_count, found.gaps, found.restarts) == (
        None,
        None,
        None,
        (),
        None,
    )


@pytest.mark.parametrize(
    "given",
    [
        upstream(active=-1, lag=0),
        upstream(active=0, lag=0),
        upstream(error={"code": 404, "err_code": 10059, "description": "stream not found"}),
        upstream(headwater={"phase": "retrying", "seq": 3}),
    ],
    ids=["never seen", "never seen by an old server", "an error", "an engine that lost sight of it"],
)
def test_an_unknown_lag_is_none_for_the_upstream_and_for_the_stream(given: dict[str, Any]) -> None:
    found = stream_info(info("S", sources=[upstream(), given]))
    assert found.upstreams[1].lag is None
    assert found.lag is None
    assert stream_info(info("S", sources=[upstream(), upstream()])).lag == 14


def test_an_error_has_its_text_and_its_number() -> None:
    (found,) = upstream_infos({"sources": [upstream(error={"err_code": 10059, "description": "not found"})]})
    assert (found.error, found.error_code, found.last_known_lag) == ("not found", 10059, 7)


def test_an_engine_reports_progress_and_gaps() -> None:
    gap = {"first_seq": 3, "last_seq": 5, "time": "2026-01-02T03:04:05Z", "reason": "retention"}
    progress = {
        "phase": "catching up",
        "seq": 90,
        "origin_last_seq": 97,
        "done": 0.5,
        "behind": 1.5,
        "rate": {"msgs": 2.0, "bytes": 20.0},
        "gaps": {"count": 4, "sequences": 12, "recent": [gap]},
        "restarts": {"count": 1, "time": "2026-01-02T03:04:05Z"},
    }
    (found,) = upstream_infos({"sources": [upstream(headwater=progress)]})
    assert (found.phase, found.seq, found.origin_last_seq) == (Phase.CATCHING_UP, 90, 97)
    assert (found.done, found.behind_s, found.caught_up_in_s) == (0.5, 1.5, None)
    assert (found.messages_per_s, found.bytes_per_s, found.restarts) == (2.0, 20.0, 1)
    assert (found.gap_count, found.gap_sequences) == (4, 12)
    assert found.gaps == (UpstreamGap(3, 5, datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), "retention"),)
    assert found.gaps[0].sequences == 3


def test_an_upstream_of_an_engine_without_gaps_has_none_of_them() -> None:
    (found,) = upstream_infos({"mirror": upstream(headwater={"phase": "live", "done": 1.0})})
    assert (found.gap_count, found.gap_sequences, found.restarts) == (0, 0, 0)


def test_a_phase_of_a_newer_engine_is_unknown() -> None:
    (found,) = upstream_infos({"mirror": upstream(headwater={"phase": "dreaming", "done": 1.0})})
    assert found.phase is None


def test_a_stream_that_cannot_store_says_why() -> None:
    assert stream_info(info("S", headwater={"error": "the disk is full"})).error == "the disk is full"


@pytest.mark.parametrize(
    "reply",
    [
        {},
        {"config": None, "state": {}},
        {"config": {"name": "S"}, "state": {"messages": "many"}},
        info("S", mirror={"lag": 3}),
        info("S", mirror=[1]),
        info("S", sources=[upstream(active="x")]),
        info("S", sources=[upstream(active=10**30)]),
        info("S", sources=[upstream(headwater={"gaps": {"recent": [{}]}})]),
    ],
    ids=range(8),
)
def test_what_is_no_info_is_an_error_of_headwater(reply: dict[str, Any]) -> None:
    with pytest.raises(Error, match="is not a stream's info"):
        stream_info(reply)
