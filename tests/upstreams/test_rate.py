"""A rate is smooth, correct from the start, and fades when nothing is copied."""

from __future__ import annotations

import pytest

from headwater.upstreams.rate import Rate

SECOND = 1_000_000_000


def test_nothing_came_in() -> None:
    assert Rate().at(SECOND) == 0


def test_the_first_lump_counts_over_the_time_since_work_began() -> None:
    rate = Rate()
    rate.begin(100 * SECOND)
    rate.add(5000, 105 * SECOND)
    assert rate.at(105 * SECOND) == pytest.approx(1270, rel=0.01), "the newest weigh most"


@pytest.mark.parametrize("every_s", [0.1, 1, 3])
def test_a_steady_flow_in_lumps_gives_its_rate(every_s: float) -> None:
    rate = Rate()
    now_ns = 1000 * SECOND
    rate.begin(now_ns)
    for _ in range(int(60 / every_s)):
        now_ns += int(every_s * SECOND)
        rate.add(1000 * every_s, now_ns)
    assert rate.at(now_ns) == pytest.approx(1000, rel=0.2)


def test_it_fades_to_nothing() -> None:
    rate = Rate()
    rate.begin(SECOND)
    rate.add(1000, 2 * SECOND)
    earlier, later = rate.at(5 * SECOND), rate.at(20 * SECOND)
    assert earlier > later > 0
    assert rate.at(600 * SECOND) == 0


def test_after_a_pause_it_starts_over() -> None:
    rate = Rate()
    rate.begin(SECOND)
    rate.add(1000, 2 * SECOND)
    rate.begin(1000 * SECOND)
    rate.add(500, 1001 * SECOND)
    assert rate.at(1001 * SECOND) == pytest.approx(525, rel=0.01)


def test_to_begin_while_something_comes_in_changes_nothing() -> None:
    rate = Rate()
    rate.begin(SECOND)
    rate.add(1000, 2 * SECOND)
    before = rate.at(3 * SECOND)
    rate.begin(3 * SECOND)
    assert rate.at(3 * SECOND) == before
