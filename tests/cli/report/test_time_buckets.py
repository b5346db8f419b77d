"""Steps of time: their width, their beginnings, and steps without messages."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from headwater.cli.report.time_buckets import check_step, chosen_step_s, cumulated, filled, start_of
from headwater.errors import SettingsError

NOON = datetime(2026, 11, 16, 12, 0, tzinfo=UTC)  # a Monday


@pytest.mark.parametrize(
    ("span_s", "most", "step_s"),
    [
        (0, 60, 1),
        (59, 60, 1),
        (60, 60, 2),
        (3600, 60, 120),
        (86_400, 60, 1800),
        (400 * 86_400, 60, 7 * 86_400),
    ],
)
def test_the_smallest_step_that_fits_is_chosen(span_s: int, most: int, step_s: int) -> None:
    last = NOON + timedelta(seconds=span_s)
    assert chosen_step_s(NOON, last, most) == step_s
    assert len(filled([], NOON, last, step_s)) <= most + 1


def test_steps_without_messages_are_0_or_as_before() -> None:
    hours = [NOON + timedelta(hours=hour) for hour in range(4)]
    found = [(hours[0], 3.0), (hours[2], 5.0)]
    last = hours[3] + timedelta(minutes=59)
    assert filled(found, hours[0], last, 3600) == list(zip(hours, [3.0, 0.0, 5.0, 0.0], strict=True))
    carried = filled(found, hours[0], last, 3600, carried=True)
    assert [value for _, value in carried] == [3.0, 3.0, 5.0, 5.0]
    assert [value for _, value in cumulated(carried)] == [3.0, 6.0, 11.0, 16.0]


def test_weeks_begin_on_mondays_and_days_at_midnight_utc() -> None:
    sunday = datetime(2026, 11, 22, 23, 59, tzinfo=UTC)
    assert start_of(sunday, 7 * 86_400) == datetime(2026, 11, 16, tzinfo=UTC)
    assert start_of(sunday, 86_400) == datetime(2026, 11, 22, tzinfo=UTC)


def test_a_step_that_is_too_small_for_a_picture_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"cover 86,400 steps, but a chart has at most 2,000"):
        check_step(1, NOON, NOON + timedelta(days=1))
