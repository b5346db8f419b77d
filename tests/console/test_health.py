"""Health is the worst of what is known, with its reason."""

from __future__ import annotations

from typing import Any

import pytest

from consoles import sampler_with, stream_answer, upstream_answer
from headwater.console.health import BAD, BUSY, GOOD, UNKNOWN, HealthLevel, stream_health, worst

LIVE = upstream_answer("O")["headwater"]


@pytest.mark.parametrize(
    ("source", "level"),
    [
        ({}, GOOD),
        ({"error": {"description": "no responders", "err_code": 1}}, BAD),
        ({"headwater": {**LIVE, "phase": "stalled"}}, BAD),
        ({"headwater": {**LIVE, "phase": "catching up"}, "lag": 5}, BUSY),
        ({"headwater": {**LIVE, "gaps": {"count": 1, "sequences": 5, "recent": []}}}, BUSY),
        ({"active": -1}, UNKNOWN),
        ({"headwater": None, "lag": 4}, BUSY),
    ],
)
def test_a_stream_is_as_well_as_its_source(source: dict[str, Any], level: str) -> None:
    info = stream_answer("COPY", sources=[upstream_answer("FINE"), upstream_answer("O", **source)])
    assert stream_health(info, sampler_with(info).sites["local"].snapshot).level == level


def test_a_stream_that_cannot_be_stored_is_bad() -> None:
    info = stream_answer("A", headwater={"error": "no space left"})
    assert stream_health(info, sampler_with(info).sites["local"].snapshot) == HealthLevel(
        BAD, "no space left"
    )


def test_the_worst_of_nothing_is_good() -> None:
    assert worst([]) == HealthLevel(GOOD)
