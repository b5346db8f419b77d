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
    "attention": "/attention",
    "messages": "/messages/lake/ARCHIVE",
    "message": "/messages/lake/ARCHIVE/1",
    "query": "/query",
    "history": "/history",
    "warnings": "/warnings",
    "changes": "/changes",
    "change-stream": "/changes/lake/CLICKS",
    "change-consumer": "/changes/lake/CLICKS/consumers/dashboard",
}
SHOWN = {
    ("map", "wide", "light"),
    ("streams", "wide", "dark"),
    ("stream", "wide", "light"),
    ("messages", "wide", "light"),
    ("upstream", "wide", "dark"),
    ("upstreams", "narrow", "light"),
    ("query", "wide", "light"),
}
"""The pictures in the guide to the console."""
STILL = ("messages", "message", "query", "history", "warnings", "changes", "change-stream", "change-consumer")
"""Pages that have no live updates."""
QUESTION = (
    "SELECT subject, count(*) AS messages, max(seq) AS last FROM archive GROUP BY subject ORDER BY subject"
)
SAMPLES = 40
"""How many updates a page waits for, so that its plots have a shape."""


def shoot(
    running: Browser, address: str, name: str, size: tuple[int, int], scheme: Scheme, into: Path
) -> None:
    """Take one picture."""
    path = PAGES[name]
    with visitor(running, *size, scheme=scheme) as page:
        page.goto(f"{address}{path}")
        if name not in STILL:
            expect(page.locator("#connection")).to_have_text("live")
        if name == "query":
            page.locator("textarea").fill(QUESTION)
            page.locator("main button[type=submit], main button.primary").first.click()
            page.locator("main table").first.wait_for()
        page.wait_for_timeout(500)
        kind = "narrow" if size == NARROW else "wide"
        page.screenshot(path=into / f"console-{name}-{kind}-{scheme}.png", animations="disabled")


def main(wanted: list[str]) -> None:
    """Take the pictures of the guide into docs/images, or with `all FOLDER` those of every page there."""
    takes_all = wanted[:1] == ["all"]
    into = Path(wanted[1]) if takes_all else IMAGES
    into.mkdir(exist_ok=True, parents=True)
    looks: list[tuple[tuple[int, int], Scheme]] = [
        (WIDE, "light"),
        (WIDE, "dark"),
        (NARROW, "light"),
        (NARROW, "dark"),
    ]
    with tempfile.TemporaryDirectory() as folder, browser() as running:
        with console_stage(Path(folder), hostile=False, keep_publishing=True) as stage:
            address = stage.console("--allow-changes", "--store", str(stage.directory / "lake" / "store"))
            wait_for_plots(running, address)
            for name in PAGES:
                for size, scheme in looks:
                    kind = "narrow" if size == NARROW else "wide"
                    if takes_all or (name, kind, scheme) in SHOWN:
                        shoot(running, address, name, size, scheme, into)


def wait_for_plots(running: Browser, address: str) -> None:
    """Return once copies run and the plots have a shape."""
    with visitor(running) as page:
        page.goto(f"{address}/upstreams")
        # Without a function in the page: its policy refuses text that becomes a program.
        copied = page.locator("#table tbody tr", has_text="PAYMENTS").get_by_text("live")
        copied.wait_for(timeout=PATIENCE_MS * 5)
        while int(page.locator("body").get_attribute("data-updates") or 0) < SAMPLES:
            page.wait_for_timeout(500)


if __name__ == "__main__":
    main(sys.argv[1:])
