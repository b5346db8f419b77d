"""Schedules: moments, intervals and patterns, and when they are due next."""

from __future__ import annotations

from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model.times import SECOND, format_time, parse_time
from headwater.stream.timing.schedule import Schedule, zone_of


def ns(text: str) -> int:
    """Return a time in nanoseconds."""
    value = parse_time(text)
    assert value is not None
    return value


def due(pattern: str, after: str, now: str | None = None, zone: str | None = None) -> str:
    """Return when a pattern is due, as its schedule writes it."""
    schedule = Schedule.parse(pattern, zone_of(zone) if zone else None)
    assert schedule is not None
    value = schedule.next_ns(ns(after), ns(now or after))
    assert value is not None
    return schedule.format(value)


def test_a_moment_is_due_once_whatever_the_time() -> None:
    schedule = Schedule.parse("@at 2026-01-01T10:00:00.5+02:00", None)
    assert schedule is not None
    assert not schedule.repeats
    assert schedule.next_ns(0, 1 << 62) == ns("2026-01-01T08:00:00.5Z")


def test_an_interval_counts_from_the_nearest_second() -> None:
    assert due("@every 90s", "2026-01-01T00:00:00.4Z") == "2026-01-01T00:01:30Z"
    assert due("@every 1.5s", "2026-01-01T00:00:00.5Z") == "2026-01-01T00:00:02.5Z"


def test_what_was_missed_is_due_once() -> None:
    assert due("@every 1m", "2026-01-01T00:00:00Z", "2026-01-01T05:00:10Z") == "2026-01-01T05:01:10Z"
    assert due("@hourly", "2026-01-01T00:00:00Z", "2026-01-01T05:00:10Z") == "2026-01-01T06:00:00Z"


def test_a_pattern_is_due_by_the_clock_of_its_zone() -> None:
    assert due("@daily", "2026-07-01T12:00:00Z", zone="Europe/Vienna") == "2026-07-02T00:00:00+02:00"
    assert due("@daily", "2026-01-01T12:00:00Z", zone="Europe/London") == "2026-01-02T00:00:00Z"
    assert due("@daily", "2026-07-01T12:00:00Z", zone="UTC") == "2026-07-02T00:00:00Z"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("@yearly", "2027-01-01T00:00:00Z"),
        ("@annually", "2027-01-01T00:00:00Z"),
        ("@monthly", "2026-08-01T00:00:00Z"),
        ("@weekly", "2026-07-05T00:00:00Z"),
        ("@midnight", "2026-07-02T00:00:00Z"),
        ("@hourly", "2026-07-01T13:00:00Z"),
    ],
)
def test_names_stand_for_patterns(name: str, expected: str) -> None:
    assert due(name, "2026-07-01T12:00:00Z") == expected


@pytest.mark.parametrize(
    "pattern", ["soon", "@every 999ms", "@every -1m", "@every", "@every x", "@at tomorrow", "@at", "@Hourly"]
)
def test_an_invalid_pattern_is_refused(pattern: str) -> None:
    assert Schedule.parse(pattern, None) is None


def test_only_a_pattern_may_have_a_zone() -> None:
    assert Schedule.parse("@every 1h", UTC) is None
    assert Schedule.parse("@at 2026-01-01T10:00:00Z", UTC) is None


def test_a_pattern_that_is_never_due_says_so() -> None:
    schedule = Schedule.parse("0 0 0 30 2 *", None)
    assert schedule is not None
    assert schedule.next_ns(0, 0) is None


def test_a_pattern_at_the_end_of_the_calendar_is_never_due_again() -> None:
    schedule = Schedule.parse("@yearly", None)
    assert schedule is not None
    assert schedule.next_ns(ns("9999-12-31T23:59:59Z"), 0) is None


@pytest.mark.parametrize("name", ["", "Nowhere", "../UTC", "/etc/localtime", "Europe", "Local", "a\0b"])
def test_a_zone_that_is_none_is_not_found(name: str) -> None:
    assert zone_of(name) is None


@given(
    st.integers(SECOND, 400 * 86_400 * SECOND),
    st.integers(0, 10**18),
    st.integers(0, 10**18),
)
def test_an_interval_is_never_due_in_the_past_and_never_more_than_once_ahead(
    every: int, ts: int, later: int
) -> None:
    now = ts + later
    value = Schedule(every_ns=every).next_ns(ts, now)
    assert value is not None
    assert value >= now
    assert value <= now + SECOND + every
    assert parse_time(format_time(value)) == value
