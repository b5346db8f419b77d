"""Numbers, sizes, durations and times, written and read."""

from __future__ import annotations

import time

import pytest

from headwater.cli import phrases


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0 B"),
        (837, "837 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (3380, "3.3 KiB"),
        (27_648, "27 KiB"),
        (10_188, "9.9 KiB"),
        (10_199, "10 KiB"),
        (5 << 20, "5.0 MiB"),
        (2**70, "1024 EiB"),
    ],
)
def test_sizes_are_said_in_the_unit_that_suits(value: int, said: str) -> None:
    assert phrases.size(value) == said


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (0, "0s"),
        (940_000_000, "0.94s"),
        (14_480_000_000, "14.48s"),
        (143 * 10**9, "2m23s"),
        (3_723 * 10**9, "1h2m3s"),
        (86_400 * 10**9, "1d0h0m0s"),
        (-(10**9), "-1.00s"),
        ((366 * 86_400 + 5) * 10**9, "1y1d0h0m5s"),
    ],
)
def test_durations_are_said_to_the_second(ns: int, said: str) -> None:
    assert phrases.duration(ns) == said


@pytest.mark.parametrize(
    ("ns", "said"),
    [(0, "unlimited"), (100_000_000, "100ms"), (10**10, "10s"), (120 * 10**9, "2m0s")],
)
def test_configured_durations_are_said_as_they_were_given(ns: int, said: str) -> None:
    assert phrases.setting(ns) == said


@pytest.mark.parametrize(("ns", "said"), [(-1, "never"), (0, "never"), (9_820_000_000, "9.82s")])
def test_an_origin_that_was_never_heard_of_is_said_so(ns: int, said: str) -> None:
    assert phrases.seen(ns) == said


def test_times_are_local_and_to_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC-2")
    time.tzset()
    try:
        assert phrases.moment("2026-01-02T03:04:05.678Z") == "2026-01-02 05:04:05"
    finally:
        monkeypatch.delenv("TZ")
        time.tzset()
    assert phrases.moment("0001-01-01T00:00:00Z") == ""


def test_how_long_ago_something_was_is_never_negative() -> None:
    now = 1_767_323_045 * 10**9
    assert phrases.since("2026-01-02T03:04:00Z", now) == "5.00s"
    assert phrases.since("2026-01-02T03:05:00Z", now) == "0s"
    assert phrases.since("0001-01-01T00:00:00Z", now) == "never"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90m", 5400),
        ("1d3h", 97_200),
        ("2w", 1_209_600),
        ("1y", 31_536_000),
        ("1M", 2_592_000),
        ("-1", 0),
        ("0", 0),
        ("", 0),
        ("1.5s", 1.5),
    ],
)
def test_durations_are_read_with_days_and_years(text: str, seconds: float) -> None:
    assert phrases.read_duration(text) == int(seconds * 10**9)


@pytest.mark.parametrize("text", ["soon", "1x", "-5s", "d"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        phrases.read_duration(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [("1024", 1024), ("64KB", 65_536), ("1.5GiB", 1_610_612_736), ("1m", 1 << 20), ("-1", -1), ("0", -1)],
)
def test_sizes_are_read_with_their_units(text: str, value: int) -> None:
    assert phrases.read_size(text) == value


def test_what_is_no_size_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a size"):
        phrases.read_size("much")


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-31 12:00:00", "2026-01-31T12:00:00Z"),
        ("2026:01:31 12:00:00", "2026-01-31T12:00:00Z"),
        ("2026-01-31", "2026-01-31T00:00:00Z"),
        ("2026-01-31T12:00:00+01:00", "2026-01-31T12:00:00+01:00"),
    ],
)
def test_times_are_read_in_the_forms_people_write(text: str, time: str) -> None:
    assert phrases.read_moment(text) == time


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="is not a UTC time"):
        phrases.read_moment("yesterday")


@pytest.mark.parametrize(("value", "said"), [(-1, "unlimited"), (0, "unlimited"), (1234, "1,234")])
def test_limits_are_said_or_unlimited(value: int, said: str) -> None:
    assert phrases.limit(value) == said
