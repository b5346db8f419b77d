"""`stream catch-up`: what counts as behind, and the wait against real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.cli.stream.catch_up import GONE_S, Wait, behind
from headwater.model.times import SECOND
from jetstreams import Shell, jetstream


def upstream(lag: int = 0, active: int = 1, **rest: Any) -> dict[str, Any]:
    """Return an upstream's state."""
    return {"name": "ORDERS", "lag": lag, "active": active, **rest}


def heard(*upstreams: dict[str, Any], asked_s: float = 5.0) -> list[str]:
    """Return what is waited for so long after the command began at 0."""
    return Wait(0.0).reasons({"sources": list(upstreams)}, asked_s)


def test_a_stream_is_behind_by_what_all_its_upstreams_lack() -> None:
    assert behind({"sources": [upstream(7), upstream(2)]}) == 9
    assert behind({"mirror": upstream(7)}) == 7


def test_nothing_is_waited_for_once_all_is_copied() -> None:
    assert heard(upstream(), upstream()) == []


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (upstream(7), "7 messages behind"),
        (upstream(active=-1), "not seen yet"),
        (upstream(active=0), "not seen yet"),
        (upstream(active=6 * SECOND), "last seen before this command began"),
        (upstream(error={"code": 404, "description": "stream not found"}), "stream not found"),
        (upstream(headwater={"seq": 3, "origin_last_seq": 9}, lag=6), "6 messages behind"),
    ],
)
def test_what_is_waited_for_is_said(given: dict[str, Any], words: str) -> None:
    (reason,) = heard(upstream(), given)
    assert reason.startswith("ORDERS: ")
    assert words in reason


def test_what_the_origin_got_after_the_command_began_is_not_waited_for() -> None:
    wait = Wait(0.0)
    first = {"mirror": upstream(4, headwater={"seq": 5, "origin_last_seq": 9})}
    assert wait.reasons(first, 1.0)
    later = {"mirror": upstream(100, headwater={"seq": 8, "origin_last_seq": 108})}
    assert wait.reasons(later, 2.0)
    reached = {"mirror": upstream(100, headwater={"seq": 9, "origin_last_seq": 109})}
    assert wait.reasons(reached, 3.0) == []


def test_a_sequence_that_was_reached_before_the_origin_was_lost_does_not_count() -> None:
    wait = Wait(0.0)
    stale = {"mirror": upstream(headwater={"seq": 9, "origin_last_seq": 9}, active=3 * SECOND)}
    assert wait.reasons(stale, 2.0)
    fresh = {"mirror": upstream(90, headwater={"seq": 9, "origin_last_seq": 99})}
    assert wait.reasons(fresh, 3.0)


def test_an_origin_that_does_not_exist_is_given_up_after_a_while() -> None:
    wait = Wait(0.0)
    gone = {"mirror": upstream(error={"code": 404, "err_code": 10059, "description": "stream not found"})}
    assert not wait.is_hopeless(gone, 1.0)
    assert not wait.is_hopeless({"mirror": upstream()}, 2.0)
    assert not wait.is_hopeless(gone, 3.0)
    assert not wait.is_hopeless(gone, 3.0 + GONE_S / 2)
    assert wait.is_hopeless(gone, 3.0 + GONE_S)


def test_a_stream_that_copies_nothing_is_refused(shell: Shell, stream: str) -> None:
    ran = shell("stream", "catch-up", stream)
    assert (ran.code, "copies from nobody" in ran.err) == (1, True)


def test_waiting_for_an_origin_that_is_not_there_ends_in_time(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--mirror", f"{name}NOPE", "--defaults")
    ran = shell("stream", "catch-up", name, "--within", "1ms")
    assert ran.code == 1
    assert f"headwater: stream {name} has not caught up after " in ran.err
    assert f"{name}NOPE" in ran.err


def test_the_wait_ends_when_everything_is_copied(tmp_path: Path) -> None:
    with jetstream("nats-server", tmp_path) as shell:
        shell.ok("stream", "add", "ORDERS", "--subjects", "ORDERS", "--defaults")
        shell.ok("pub", "ORDERS", "x", "--count", "3", "--jetstream", "-q")
        shell.ok("stream", "add", "COPY", "--mirror", "ORDERS", "--defaults")
        assert "Stream COPY has caught up, at sequence " in shell.ok("stream", "catch-up", "COPY")
        assert shell.json("stream", "catch-up", "COPY", "--within", "60s")["lag"] == 0
