"""What tests of upstreams share."""

from __future__ import annotations

import pytest

from control.copiers import be_impatient


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer requests for work soon when there is none, so that tests do not wait."""
    be_impatient(monkeypatch)
