"""`stream catch-up`: what counts as behind, and the wait against real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.cli.catch_up import behind, trouble
from jetstreams import Shell, jetstream


def upstream(lag: int = 0, active: int = 1, **rest: Any) -> dict[str, Any]:
    """Return an upstream's state."""
    return {"name": "ORDERS", "lag": lag, "active": active, **rest}


@pytest.mark.parametrize(
    ("info", "lag"),
    [
        ({"mirror": upstream(7)}, 7),
        ({"sources": [upstream(7), upstream(2)]}, 9),
        ({"sources": [upstream(7), upstream(0, -1)]}, -1),
        ({}, 0),
    ],
)
def test_a_stream_is_behind_by_what_all_its_upstreams_lack(info: dict[str, Any], lag: int) -> None:
    assert behind(info) == lag


def test_an_error_of_an_upstream_is_told_with_its_name() -> None:
    failing = upstream(error={"code": 404, "description": "stream not found"})
    assert trouble({"sources": [upstream(), failing]}) == "ORDERS: stream not found"
    assert trouble({"mirror": upstream()}) == ""


def test_a_stream_that_copies_nothing_is_refused(shell: Shell, stream: str) -> None:
    ran = shell("stream", "catch-up", stream)
    assert (ran.code, "copies from nobody" in ran.err) == (1, True)


def test_waiting_for_an_origin_that_is_not_there_ends_in_time(shell: Shell, name: str) -> None:
    shell.ok("stream", "add", name, "--mirror", f"{name}NOPE", "--defaults")
    ran = shell("stream", "catch-up", name, "--within", "1ms")
    assert ran.code == 1
    assert ran.err.startswith(f"headwater: stream {name} is ")
    assert len(ran.err.splitlines()) == 1


def test_the_wait_ends_when_everything_is_copied(tmp_path: Path) -> None:
    with jetstream("nats-server", tmp_path) as shell:
        shell.ok("stream", "add", "ORDERS", "--subjects", "ORDERS", "--defaults")
        shell.ok("pub", "ORDERS", "x", "--count", "3", "--jetstream", "-q")
        shell.ok("stream", "add", "COPY", "--mirror", "ORDERS", "--defaults")
        assert "Stream COPY has caught up, at sequence " in shell.ok("stream", "catch-up", "COPY")
        assert shell.json("stream", "catch-up", "COPY", "--within", "60s")["lag"] == 0
