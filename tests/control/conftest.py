"""What tests of upstreams share."""

from __future__ import annotations

import pytest


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have questions for work answered soon when there is none, so that a test goes on."""
    monkeypatch.setattr("headwater.control.upstreams.IDLE_S", 0.05)
    monkeypatch.setattr("headwater.control.restless.LOOK_NS", 20_000_000)
    monkeypatch.setattr("headwater.control.upstreams.LOOK_NS", 20_000_000)
