"""What tests of upstreams share."""

from __future__ import annotations

import pytest

from control.copiers import be_impatient


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests for work answered soon when there is none, so that a test continues."""
    be_impatient(monkeypatch)
