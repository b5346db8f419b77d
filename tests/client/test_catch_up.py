"""The wait for a copy: what it waits for, and when it gives up."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.client.catch_up import GONE_S, CatchUp, CatchUpError
from headwater.client.stream_info import upstream_infos
from headwater.model.times import SECOND


def upstream(lag: int = 0, active: int = 1, **rest: Any) -> dict[str, Any]:
    """Return an upstream's state."""
    return {"name": "ORDERS", "lag": lag, "active": active, **rest}


def heard(*upstreams: dict[str, Any], asked_s: float = 5.0) -> list[str]:
    """Return what is waited for so long after the wait began at 0."""
    return CatchUp(0.0).reasons(upstream_infos({"sources": list(upstreams)}), asked_s, asked_s)


COPIED = {"seq": 9, "origin_last_seq": 9}


def test_nothing_is_waited_for_once_all_is_copied() -> None:
    assert heard(upstream(headwater=COPIED), upstream(headwater=COPIED)) == []


def plain(*heard_s: tuple[float, float, float]) -> list[bool]:
    """Return whether a wait continues after each answer of a plain server.

    An answer is given by the time of the request, the time of the reply, and the origin's time of inactivity.
    """
    wait = CatchUp(0.0)
    infos = [
        (upstream_infos({"mirror": upstream(active=int(s * SECOND))}), at, end) for at, end, s in heard_s
    ]
    return [bool(wait.reasons(*each)) for each in infos]


def test_a_plain_server_that_has_just_begun_is_not_believed_that_nothing_is_missing() -> None:
    """It reports a lag of zero before the first message. Only the answer to its request made it active."""
    assert plain((1.1, 1.1, 0.1), (1.5, 1.5, 0.5), (4.0, 4.0, 3.0), (9.0, 9.0, 8.0)) == [True] * 4


def test_a_plain_server_is_believed_after_a_heartbeat_of_the_origin() -> None:
    assert plain((1.1, 1.1, 0.1), (1.9, 1.9, 0.9), (2.1, 2.1, 0.1)) == [True, True, False]


def test_a_plain_server_that_is_slow_to_answer_has_not_heard_twice() -> None:
    assert plain((1.1, 3.1, 1.5), (3.2, 3.2, 1.6)) == [True, True]


def test_a_plain_server_that_asks_its_origin_again_has_not_heard_a_heartbeat() -> None:
    assert plain((1.1, 1.1, 0.1), (11.2, 11.2, 0.1), (21.3, 21.3, 0.1)) == [True] * 3


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (upstream(7), "7 messages behind"),
        (upstream(active=-1), "not seen yet"),
        (upstream(active=0), "not seen yet"),
        (upstream(active=6 * SECOND), "last seen before this wait began"),
        (upstream(error={"code": 404, "description": "stream not found"}), "stream not found"),
        (upstream(headwater={"seq": 3, "origin_last_seq": 9}, lag=6), "6 messages behind"),
    ],
)
def test_what_is_waited_for_is_said(given: dict[str, Any], words: str) -> None:
    (reason,) = heard(upstream(headwater=COPIED), given)
    assert reason.startswith("ORDERS: ")
    assert words in reason


def test_what_the_origin_got_after_the_wait_began_is_not_waited_for() -> None:
    wait = CatchUp(0.0)
    first = upstream_infos({"mirror": upstream(4, headwater={"seq": 5, "origin_last_seq": 9})})
    assert wait.reasons(first, 1.0, 1.0)
    later = upstream_infos({"mirror": upstream(100, headwater={"seq": 8, "origin_last_seq": 108})})
    assert wait.reasons(later, 2.0, 2.0)
    reached = upstream_infos({"mirror": upstream(100, headwater={"seq": 9, "origin_last_seq": 109})})
    assert wait.reasons(reached, 3.0, 3.0) == []


def test_a_sequence_that_was_reached_before_the_origin_was_lost_does_not_count() -> None:
    wait = CatchUp(0.0)
    stale = upstream_infos(
        {"mirror": upstream(headwater={"seq": 9, "origin_last_seq": 9}, active=3 * SECOND)}
    )
    assert wait.reasons(stale, 2.0, 2.0)
    fresh = upstream_infos({"mirror": upstream(90, headwater={"seq": 9, "origin_last_seq": 99})})
    assert wait.reasons(fresh, 3.0, 3.0)


def test_an_origin_that_does_not_exist_is_given_up_after_a_while() -> None:
    wait = CatchUp(0.0)
    gone = upstream_infos(
        {"mirror": upstream(error={"code": 404, "err_code": 10059, "description": "stream not found"})}
    )
    assert not wait.is_hopeless(gone, 1.0)
    assert not wait.is_hopeless(upstream_infos({"mirror": upstream()}), 2.0)
    assert not wait.is_hopeless(gone, 3.0)
    assert not wait.is_hopeless(gone, 3.0 + GONE_S / 2)
    assert wait.is_hopeless(gone, 3.0 + GONE_S)


def test_a_copy_that_stays_stalled_is_given_up_only_where_that_is_wanted() -> None:
    stalled = upstream_infos(
        {"mirror": upstream(7, error={"description": "nothing is copied"}, headwater={"phase": "stalled"})}
    )
    moving = upstream_infos({"mirror": upstream(7, headwater={"phase": "catching up"})})
    wait, patient = CatchUp(0.0, stalled_s=60.0), CatchUp(0.0)
    assert not wait.is_hopeless(stalled, 1.0)
    assert not wait.is_hopeless(moving, 50.0)
    assert not wait.is_hopeless(stalled, 62.0)
    assert not wait.is_hopeless(stalled, 121.0)
    assert wait.is_hopeless(stalled, 122.0)
    assert not patient.is_hopeless(stalled, 1.0)
    assert not patient.is_hopeless(stalled, 10_000.0)


def test_the_error_says_what_was_waited_for_and_how_long() -> None:
    error = CatchUpError("COPY", ["ORDERS: 7 messages behind"], 61.23)
    assert str(error) == "stream COPY has not caught up after 1m1.2s: ORDERS: 7 messages behind"
    assert (error.stream, error.reasons, error.waited_s) == ("COPY", ("ORDERS: 7 messages behind",), 61.23)
