"""What holds for everything that receives the announcements of an engine: any order, any number of times."""

from __future__ import annotations

import concurrent.futures
from pathlib import Path

import pytest

from headwater.announcements import Announcements, PrintedAnnouncements
from headwater.engine import _Readiness


@pytest.fixture(params=["printed", "in a process"])
def announcements(request: pytest.FixtureRequest) -> Announcements:
    return PrintedAnnouncements() if request.param == "printed" else _Readiness(concurrent.futures.Future())


def test_a_standby_announces_that_it_waits_and_then_that_it_is_ready(announcements: Announcements) -> None:
    announcements.waiting(Path("store"), "")
    announcements.waiting(Path("store"), "17")
    announcements.ready("nats://127.0.0.1:1", "1 stream", 0.5)


def test_an_engine_with_several_seats_may_be_ready_more_than_once(announcements: Announcements) -> None:
    announcements.ready("nats://127.0.0.1:1", "1 stream", 0.5)
    announcements.ready("nats://127.0.0.1:2", "1 stream", 0.5)
