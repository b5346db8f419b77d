"""`stream catch-up`: what counts as behind, and the wait against real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from headwater.cli.stream.catch_up import behind
from jetstreams import Shell, jetstream


def upstream(lag: int = 0, active: int = 1, **rest: Any) -> dict[str, Any]:
    """Return an upstream's state."""
    return {"name": "ORDERS", "lag": lag, "active": active, **rest}


def test_a_stream_is_behind_by_what_all_its_upstreams_lack() -> None:
    assert behind({"sources": [upstream(7), upstream(2)]}) == 9
    assert behind({"mirror": upstream(7)}) == 7


def test_a_stream_that_copies_nothing_is_refused(shell: Shell, stream: str) -> None:
    ran = shell("stream", "catch-up", stream)
    assert (ran.code, "has neither sources nor a mirror" in ran.err) == (1, True)


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
