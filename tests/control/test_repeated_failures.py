"""The same failure is logged once, another one at once, and its end."""

from __future__ import annotations

import logging

import pytest

from headwater.control.repeated_failures import AGAIN_NS, RepeatedFailures


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_a_failure_that_stays_is_logged_once(log: pytest.LogCaptureFixture) -> None:
    failures = RepeatedFailures()
    for now_ns in range(10):
        failures.failed("fold", "stream S", "the disk is full", now_ns)
    assert log.messages == ["stream S: the disk is full"]
    failures.ended("fold", "stream S")
    failures.ended("fold", "stream S")
    assert log.messages[1:] == ["stream S works again, after 10 failures"]


def test_another_failure_and_another_stream_are_logged_at_once(log: pytest.LogCaptureFixture) -> None:
    failures = RepeatedFailures()
    failures.failed("a", "stream A", "the disk is full", 1)
    failures.failed("b", "stream B", "the disk is full", 1)
    failures.failed("a", "stream A", "the disk is broken", 1)
    assert len(log.messages) == 3


def test_a_failure_that_stays_long_is_logged_now_and_then(log: pytest.LogCaptureFixture) -> None:
    failures = RepeatedFailures()
    for now_ns in (1, 2, 3, 1 + AGAIN_NS):
        failures.failed("a", "stream A", "the disk is full", now_ns)
    assert log.messages == [
        "stream A: the disk is full",
        "stream A: the disk is full (2 more times since this was logged last)",
    ]


def test_what_failed_once_and_is_over_is_not_worth_another_line(log: pytest.LogCaptureFixture) -> None:
    failures = RepeatedFailures()
    failures.failed("a", "stream A", "the disk is full", 1)
    failures.ended("a", "stream A")
    failures.failed("b", "stream B", "the disk is full", 1)
    failures.forget("b")
    failures.ended("b", "stream B")
    assert len(log.messages) == 2
