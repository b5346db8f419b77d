"""The browser of the tests that need one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from browsers import browser


# Not for the whole session: the driver's loop runs in this thread, in which other tests run theirs.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """Run one browser for all tests of a module."""
    with browser() as running:
        yield running
