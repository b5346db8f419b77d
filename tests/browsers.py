"""A real browser for tests: Debian's Chromium, driven by Playwright. Nothing is downloaded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE_MS = 60_000
_OPTIONS = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
"""A test's browser opens only pages of this machine, often as root in a container."""


def browser_path() -> str:
    """Return the browser's program; "" if there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), "")


@contextmanager
def browser() -> Iterator[Browser]:
    """Run a browser without a window."""
    path = browser_path()
    if not path:
        pytest.skip("no Chromium is installed: apt-get install -y chromium")
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=path, args=list(_OPTIONS))
        try:
            yield running
        finally:
            running.close()


@contextmanager
def visitor(
    running: Browser,
    width: int = 1280,
    height: int = 800,
    scheme: Literal["light", "dark"] = "light",
    ignored: str = "nothing is ignored",
) -> Iterator[Page]:
    """Open a window of this size; its errors and what the policy blocked fail the test at the end."""
    context = running.new_context(
        viewport={"width": width, "height": height}, color_scheme=scheme, locale="en-US", timezone_id="UTC"
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: problems.append(f"dialog: {dialog.message}"))
    page.on("requestfailed", lambda request: _note_failed(problems, request.url, request.failure))
    try:
        yield page
        found = [problem for problem in problems if ignored not in problem]
        assert not found, found
    finally:
        context.close()


def _note_failed(problems: list[str], url: str, failure: str | None) -> None:
    """Remember a failed request; a page that is left aborts its events, and its icon if that is slow."""
    if "/live/" not in url and failure != "net::ERR_ABORTED":
        problems.append(f"{url}: {failure}")
