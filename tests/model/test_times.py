"""Times and durations are written and read as Go does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.model import times


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1, "1970-01-01T00:00:00.000000001Z"),
        (1_700_000_000_500_000_000, "2023-11-14T22:13:20.5Z"),
        (1_700_000_000_123_456_789, "2023-11-14T22:13:20.123456789Z"),
        (-62_135_596_800 * times.SECOND, times.ZERO_TIME),
        (-1, "1969-12-31T23:59:59.999999999Z"),
    ],
)
def test_a_time_is_printed_without_trailing_zeros_and_read_back(ns: int, text: str) -> None:
    assert times.format_time(ns) == text
    assert times.parse_time(text) == ns


@given(st.integers(-62_135_596_800 * times.SECOND, 253_402_300_799 * times.SECOND))
def test_every_time_survives_the_text(ns: int) -> None:
    assert times.parse_time(times.format_time(ns)) == ns


def test_an_offset_is_taken_into_account() -> None:
    assert times.parse_time("2024-01-01T02:00:00.25+02:00") == times.parse_time("2024-01-01T00:00:00.25Z")


@pytest.mark.parametrize(
    "text", ["", "x", "2024-01-01", "2024-01-01 00:00:00Z", "2024-13-01T00:00:00Z", "2024-01-01T00:00:00"]
)
def test_other_text_is_no_time(text: str) -> None:
    assert times.parse_time(text) is None


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("5s", 5 * times.SECOND),
        ("1h15m30.5s", 4530_500_000_000),
        ("-1.5h", -5400 * times.SECOND),
        ("+100ms", 100_000_000),
        (".5s", 500_000_000),
        ("1.s", times.SECOND),
        ("1us1µs1ns", 2001),
    ],
)
def test_durations_are_read(text: str, ns: int) -> None:
    assert times.parse_duration(text) == ns


@pytest.mark.parametrize("text", ["", "-", "+", "5", "s", ".s", "1d", "1s x", "9999999999h", "1 s"])
def test_other_text_is_no_duration(text: str) -> None:
    assert times.parse_duration(text) is None


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_500, "1.5µs"),
        (100_000_000, "100ms"),
        (1_500_000_000, "1.5s"),
        (120 * times.SECOND, "2m0s"),
        (3600 * times.SECOND, "1h0m0s"),
        (-times.SECOND, "-1s"),
    ],
)
def test_durations_are_printed(ns: int, text: str) -> None:
    assert times.format_duration(ns) == text


@given(st.integers(-(2**62), 2**62))
def test_every_duration_survives_the_text(ns: int) -> None:
    assert times.parse_duration(times.format_duration(ns)) == ns


def test_a_duration_of_thousands_of_digits_or_parts_is_none() -> None:
    """Clients can send one in a header or an ack. Python rejects numbers of more than 4,300 digits."""
    assert times.parse_duration("1" * 5000 + "s") is None
    assert times.parse_duration("1ns" * 20_000) is None
