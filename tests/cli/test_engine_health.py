"""Tests of cli.engine_health."""

from __future__ import annotations

from typing import Any

from headwater.cli.engine_health import MOST_NAMED, judge_engine
from headwater.wire.progress_json import EXTENSION


def info(name: str, **more: Any) -> dict[str, Any]:
    return {"config": {"name": name}, **more}


def figures(health: Any) -> dict[str, Any]:
    return {figure.name: figure.value for figure in health.figures}


def test_streams_that_are_stored_and_copied_are_ok() -> None:
    source = {"name": "S", "active": 5, "lag": 0, EXTENSION: {"done": 1.0, "gaps": {"sequences": 3}}}
    health = judge_engine("hub", [info("S"), info("T", sources=[source])], {})
    assert (health.status, health.oks) == ("OK", ["2 streams"])
    assert figures(health) == {
        "streams": 2,
        "streams_offline": 0,
        "streams_failing": 0,
        "upstreams": 1,
        "upstreams_failing": 0,
        "upstreams_unseen": 0,
        "gaps": 3,
    }


def test_whatever_is_wrong_is_named_with_its_reason() -> None:
    mirror = {"name": "O", "active": -1, "error": {"description": "stream not found"}}
    failing = info("F", **{EXTENSION: {"error": "no space left on device"}})
    health = judge_engine("hub", [failing, info("M", mirror=mirror)], {"X": "a file is damaged"})
    assert health.status == "CRITICAL"
    assert health.criticals == [
        "offline: X (a file is damaged)",
        "cannot be stored: F (no space left on device)",
        "not copied: M from O (stream not found)",
    ]
    assert figures(health)["upstreams_unseen"] == 1


def test_of_many_only_a_few_are_named() -> None:
    offline = {f"S{number}": "no disk" for number in range(MOST_NAMED + 2)}
    (words,) = judge_engine("hub", [], offline).criticals
    assert words.count("no disk") == MOST_NAMED
    assert words.endswith(" and 2 more")
