"""The same failure is logged once, another one at once, and its end."""

from __future__ import annotations

import logging

import pytest

from headwater.control.complaints import AGAIN_NS, Complaints


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def test_a_failure_that_stays_is_logged_once(log: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    for now_ns in range(10):
        complaints.failed("fold", "stream S", "the disk is full", now_ns)
    assert log.messages == ["stream S: the disk is full"]
    complaints.ended("fold", "stream S")
    complaints.ended("fold", "stream S")
    assert log.messages[1:] == ["stream S works again, after 10 failures"]


def test_another_failure_and_another_stream_are_logged_at_once(log: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    complaints.failed("a", "stream A", "the disk is full", 1)
    complaints.failed("b", "stream B", "the disk is full", 1)
    complaints.failed("a", "stream A", "the disk is broken", 1)
    assert len(log.messages) == 3


def test_a_failure_that_stays_long_is_logged_now_and_then(log: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    for now_ns in (1, 2, 3, 1 + AGAIN_NS):
        complaints.failed("a", "stream A", "the disk is full", now_ns)
    assert log.messages == [
        "stream A: the disk is full",
        "stream A: the disk is full (2 more times since this was logged last)",
    ]


def test_what_failed_once_and_is_over_is_not_worth_another_line(log: pytest.LogCaptureFixture) -> None:
    complaints = Complaints()
    complaints.failed("a", "stream A", "the disk is full", 1)
    complaints.ended("a", "stream A")
    complaints.failed("b", "stream B", "the disk is full", 1)
    complaints.forget("b")
    complaints.ended("b", "stream B")
    assert len(log.messages) == 2
