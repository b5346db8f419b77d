"""The pace of an upstream: how far, how fast, how old, how long yet."""

from __future__ import annotations

import pytest

from headwater.upstreams.pace import LIVE_NS, Pace

SECOND = 1_000_000_000
NOW = 1_000 * SECOND


def copying(seconds: int, per_second: int, total: int, growth: int = 0) -> Pace:
    """Return the pace after so many seconds of a catch-up."""
    pace = Pace()
    pace.saw(1, total, NOW)
    pace.handed_out(NOW)
    for second in range(1, seconds + 1):
        pace.committed(per_second, per_second * 100, second * per_second, NOW + second * SECOND)
        pace.saw(second * per_second + 1, total + growth * second, NOW + second * SECOND)
    return pace


def test_a_catch_up_has_a_rate_and_an_end() -> None:
    pace = copying(20, 1000, 100_000)
    now = NOW + 20 * SECOND
    assert pace.msgs.at(now) == pytest.approx(1000, rel=0.1)
    assert pace.size.at(now) == pytest.approx(100_000, rel=0.1)
    assert pace.caught_up_in_s(80_000, now) == pytest.approx(80, rel=0.1)
    assert (pace.copied_msgs, pace.copied_bytes, pace.committed_ns) == (20_000, 2_000_000, now)
    assert (pace.began_seq, pace.origin_last_seq) == (0, 100_000)
    assert not pace.is_live(now)


def test_an_origin_that_grows_makes_it_take_longer() -> None:
    pace = copying(20, 1000, 100_000, growth=500)
    assert pace.caught_up_in_s(1, NOW + 20 * SECOND) == pytest.approx(90_000 / 500, rel=0.2)


def test_the_time_left_is_unknown_if_the_origin_grows_as_fast() -> None:
    pace = copying(30, 1000, 100_000, growth=2000)
    assert pace.caught_up_in_s(1, NOW + 30 * SECOND) is None


def test_at_the_end_it_is_live_and_the_next_catch_up_begins_there() -> None:
    pace = copying(10, 1000, 10_000)
    now = NOW + 10 * SECOND
    assert pace.is_live(now)
    assert pace.caught_up_in_s(0, now) == 0
    assert pace.behind_s(0, now) == 0
    pace.saw(10_001, 15_000, now)
    assert (pace.began_seq, pace.origin_last_seq) == (10_000, 15_000)
    assert pace.is_live(now), "until it is known that what waits has waited long"


def test_the_age_of_what_waits_says_how_far_behind_it_is() -> None:
    pace = Pace()
    pace.saw(5, 10, NOW)
    assert pace.behind_s(6, NOW) is None
    assert pace.wants_age(5)
    pace.aged(5, NOW - 60 * SECOND)
    assert pace.behind_s(6, NOW + 2 * SECOND) == 62
    assert not pace.wants_age(5)
    assert pace.wants_age(6)
    assert not pace.is_live(NOW)
    pace.aged(6, NOW - LIVE_NS + 1)
    assert not pace.is_live(NOW), "nothing was copied yet"
    pace.committed(1, 10, 5, NOW)
    assert pace.is_live(NOW)
    assert not pace.is_live(NOW + 1), "what waits grows old"


def test_a_source_that_starts_over_has_everything_left_to_copy() -> None:
    pace = copying(10, 1000, 10_000)
    pace.saw(1, 50, NOW + 60 * SECOND)
    assert (pace.began_seq, pace.origin_last_seq) == (0, 50)
