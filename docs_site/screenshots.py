"""Pictures of the console for the docs: `make screenshots` takes them from a hub and an engine with Spark."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, expect

from browsers import PATIENCE_MS, browser, visitor
from console_stage import console_stage

IMAGES = Path(__file__).parents[1] / "docs" / "images"
Scheme = Literal["light", "dark"]
WIDE = (1280, 800)
NARROW = (390, 760)
PAGES = {
    "map": "/",
    "streams": "/streams",
    "stream": "/streams/lake/ARCHIVE",
    "upstreams": "/upstreams",
    "upstream": "/upstreams/lake/ARCHIVE/0",
    "consumers": "/consumers",
    "engine": "/engine",
}
SAMPLES = 40
"""How many updates a page waits for, so that its plots have a shape."""


def shoot(
    running: Browser, address: str, name: str, path: str, size: tuple[int, int], scheme: Scheme
) -> None:
    """Take one picture."""
    with visitor(running, *size, scheme=scheme) as page:
        page.goto(f"{address}{path}")
        expect(page.locator("#connection")).to_have_text("live")
        page.wait_for_timeout(500)
        kind = "narrow" if size == NARROW else "wide"
        page.screenshot(path=IMAGES / f"console-{name}-{kind}-{scheme}.png", animations="disabled")


def main(wanted: list[str]) -> None:
    """Take the pictures of all pages, or of those that are named."""
    IMAGES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, browser() as running:
        with console_stage(Path(folder), hostile=False, keep_publishing=True) as stage:
            address = stage.console()
            with visitor(running) as page:
                page.goto(f"{address}/upstreams")
                # Without a function in the page: its policy refuses text that becomes a program.
                page.locator("#table tbody tr", has_text="PAYMENTS").get_by_text("live").wait_for(
                    timeout=PATIENCE_MS * 5
                )
                while int(page.locator("body").get_attribute("data-updates") or 0) < SAMPLES:
                    page.wait_for_timeout(500)
            for name, path in PAGES.items():
                if not wanted or name in wanted:
                    shoot(running, address, name, path, WIDE, "light")
                    shoot(running, address, name, path, WIDE, "dark")
                    shoot(running, address, name, path, NARROW, "light")


if __name__ == "__main__":
    main(sys.argv[1:])
