"""What holds for every clock: the machine's and the one that tests drive."""

from __future__ import annotations

import pytest

from headwater.clock import STEP_NS, Clock, DrivenClock, SystemClock


@pytest.fixture(params=[SystemClock, DrivenClock])
def clock(request: pytest.FixtureRequest) -> Clock:
    made: Clock = request.param()
    return made


def test_steady_time_never_goes_back(clock: Clock) -> None:
    times = [clock.steady_ns() for _ in range(100)]
    assert times == sorted(times)


def test_wall_time_is_steady_time_and_what_the_clock_was_set_by(clock: Clock) -> None:
    assert abs(clock.now_ns() - clock.steady_ns() - clock.stepped_ns()) <= STEP_NS


def test_the_step_stays_the_same_until_the_clock_is_set(clock: Clock) -> None:
    assert len({clock.stepped_ns() for _ in range(100)}) == 1
