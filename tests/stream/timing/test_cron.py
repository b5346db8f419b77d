"""Cron patterns: what they mean, and the next moment against a search second by second."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.stream.timing.cron import Cron

ZONES = (
    "UTC",
    "Europe/Vienna",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kolkata",
    "Africa/Casablanca",
)


def moment(text: str, zone: str = "UTC") -> datetime:
    """Return a time of a zone's wall clock."""
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone))


def following(pattern: str, text: str, zone: str = "UTC") -> str | None:
    """Return the next moment of a pattern as text."""
    cron = Cron.parse(pattern)
    assert cron is not None
    found = cron.after(moment(text, zone))
    return found.isoformat() if found else None


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("* * * * * *", "2026-03-01T12:00:01+00:00"),
        ("*/20 * * * * *", "2026-03-01T12:00:20+00:00"),
        ("0 * * * * *", "2026-03-01T12:01:00+00:00"),
        ("0 0 * * * *", "2026-03-01T13:00:00+00:00"),
        ("30 15 10 * * *", "2026-03-02T10:15:30+00:00"),
        ("0 0 0 1 jan ?", "2027-01-01T00:00:00+00:00"),
        ("0 0 0 29 2 *", "2028-02-29T00:00:00+00:00"),
        ("0 0 0 * * mon-FRI", "2026-03-02T00:00:00+00:00"),
        ("0 0 0 * * 6", "2026-03-07T00:00:00+00:00"),
        ("0 0 12/6 * * *", "2026-03-01T18:00:00+00:00"),
    ],
)
def test_the_next_moment_is_later_and_fits(pattern: str, expected: str) -> None:
    assert following(pattern, "2026-03-01T12:00:00") == expected


def test_of_two_restricted_days_one_is_enough_unless_a_star_stands_for_the_other() -> None:
    assert following("0 0 0 10 * mon", "2026-03-03T00:00:00") == "2026-03-09T00:00:00+00:00"
    assert following("0 0 0 10 * mon", "2026-03-09T00:00:00") == "2026-03-10T00:00:00+00:00"
    assert following("0 0 0 10 * *", "2026-03-03T00:00:00") == "2026-03-10T00:00:00+00:00"
    assert following("0 0 0 */1 * mon", "2026-03-03T00:00:00") == "2026-03-09T00:00:00+00:00"
    assert following("0 0 0 */2 * mon", "2026-03-03T00:00:00") == "2026-03-05T00:00:00+00:00"


@pytest.mark.parametrize("pattern", ["0 0 0 30 2 *", ", 0 0 1 1 *", "0 0 0 31 4 *"])
def test_a_pattern_that_meets_nothing_in_five_years_has_no_next_moment(pattern: str) -> None:
    assert following(pattern, "2026-03-01T12:00:00") is None


def test_a_wall_clock_time_that_the_zone_skips_is_passed_over() -> None:
    assert following("0 30 2 * * *", "2026-03-29T00:00:00", "Europe/Vienna") == "2026-03-30T02:30:00+02:00"


def test_a_wall_clock_time_that_the_zone_passes_twice_is_met_twice() -> None:
    first = following("0 30 2 * * *", "2026-10-25T00:00:00", "Europe/Vienna")
    assert first == "2026-10-25T02:30:00+02:00"
    cron = Cron.parse("0 30 2 * * *")
    assert cron is not None
    again = cron.after(datetime.fromisoformat(first).astimezone(ZoneInfo("Europe/Vienna")))
    assert again is not None
    assert again.isoformat() == "2026-10-25T02:30:00+01:00"


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "* * * * *",
        "* * * * * * *",
        "60 * * * * *",
        "* * 24 * * *",
        "* * * 0 * *",
        "* * * * 13 *",
        "* * * * * 7",
        "5-1 * * * * *",
        "*/0 * * * * *",
        "1-2-3 * * * * *",
        "1/2/3 * * * * *",
        "x * * * * *",
        "-1 * * * * *",
        "* * * * february *",
        "٣ * * * * *",
    ],
)
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    assert Cron.parse(pattern) is None


def field(low: int, high: int) -> st.SearchStrategy[str]:
    """Return fields of every form between two bounds."""
    number = st.integers(low, high)
    span = st.tuples(number, number).map(sorted).map(lambda ends: f"{ends[0]}-{ends[1]}")
    part = st.one_of(st.just("*"), number.map(str), span)
    stepped = st.tuples(part, st.integers(1, 9)).map(lambda pair: f"{pair[0]}/{pair[1]}")
    return st.lists(st.one_of(part, stepped), min_size=1, max_size=3).map(",".join)


PATTERNS = st.tuples(st.just("0"), field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6))
# Around the changes of summer time, and around the end of a year and of a February.
STARTS = st.sampled_from(
    ["2026-03-27", "2026-03-07", "2026-10-24", "2026-10-31", "2026-04-03", "2026-12-30", "2028-02-27"]
)


@given(PATTERNS.map(" ".join), STARTS, st.integers(0, 86_399), st.sampled_from(ZONES))
@settings(max_examples=150, deadline=None)
def test_no_earlier_moment_fits(pattern: str, start: str, second: int, zone: str) -> None:
    cron = Cron.parse(pattern)
    assert cron is not None
    begin = (datetime.fromisoformat(start).replace(tzinfo=UTC) + timedelta(seconds=second)).astimezone(
        ZoneInfo(zone)
    )
    found = cron.after(begin)
    searched = begin.astimezone(UTC).replace(second=0) + timedelta(minutes=1)
    for _ in range(3 * 24 * 60):
        clock = searched.astimezone(ZoneInfo(zone))
        days = clock.day in cron.days, clock.isoweekday() % 7 in cron.weekdays
        fits_day = all(days) if cron.any_day else any(days)
        if (
            fits_day
            and clock.month in cron.months
            and clock.hour in cron.hours
            and clock.minute in cron.minutes
        ):
            assert found is not None
            assert found.astimezone(UTC) == searched
            return
        searched += timedelta(minutes=1)
    assert found is None or found.astimezone(UTC) >= searched
