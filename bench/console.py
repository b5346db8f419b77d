"""What the console costs with many streams: page time, updates, memory, and the load on the engine."""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
import urllib.request
from pathlib import Path
from statistics import median

import nats
import psutil
from nats.js.api import StreamSource
from playwright.sync_api import Page, expect

from browsers import PATIENCE_MS, browser, visitor
from engines import RunningEngine
from headwater.bus.free_port import free_port

WATCHED_S = 60.0


async def declare(url: str, streams: int, upstreams: int) -> None:
    """Create streams, some of which copy another; without Spark nothing is copied."""
    client = await nats.connect(url)
    jetstream = client.jetstream(timeout=60)
    for number in range(streams - upstreams):
        await jetstream.add_stream(name=f"STREAM_{number:04}", subjects=[f"s{number}"])
        await jetstream.publish(f"s{number}", b"x" * 100)
    for number in range(upstreams):
        await jetstream.add_stream(name=f"COPY_{number:04}", sources=[StreamSource(f"STREAM_{number:04}")])
    await client.close()


def fetched(address: str) -> tuple[float, int]:
    """Return the seconds and the bytes of one answer."""
    began = time.perf_counter()
    with urllib.request.urlopen(address, timeout=60) as answer:
        return time.perf_counter() - began, len(answer.read())


def expect_list(page: Page, streams: int) -> None:
    """Wait until the page has all streams and shows the first rows; the others are drawn when one scrolls."""
    expect(page.locator("#count")).to_have_text(f"{streams:,} of {streams:,} streams")
    page.locator("#table tbody tr").first.wait_for()


def watch(address: str, streams: int, console: psutil.Process, engine: psutil.Process) -> dict[str, object]:
    """Return what a browser sees in a minute, and what both processes used meanwhile."""
    with browser() as running, visitor(running) as page:
        expect.set_options(timeout=PATIENCE_MS * 3)
        began = time.perf_counter()
        page.goto(f"{address}/streams")
        expect_list(page, streams)
        cold_s = time.perf_counter() - began
        began = time.perf_counter()
        page.reload()
        expect_list(page, streams)
        warm_s = time.perf_counter() - began
        began = time.perf_counter()
        while page.locator("button.more").is_visible():
            page.evaluate("scrollTo(0, document.body.scrollHeight)")
        expect(page.locator("#table tbody tr")).to_have_count(streams)
        scrolled_s = time.perf_counter() - began
        page.reload()
        expect_list(page, streams)
        first = int(page.locator("body").get_attribute("data-updates") or 0)
        used = sum(console.cpu_times()[:2]), sum(engine.cpu_times()[:2])
        page.wait_for_timeout(WATCHED_S * 1000)
        updates = int(page.locator("body").get_attribute("data-updates") or 0) - first
        return {
            "first page, s": round(cold_s, 2),
            "page again, s": round(warm_s, 2),
            "scrolled to the last row, s": round(scrolled_s, 2),
            "updates a second": round(updates / WATCHED_S, 2),
            "console CPU, %": round((sum(console.cpu_times()[:2]) - used[0]) / WATCHED_S * 100, 1),
            "engine CPU while watched, %": round(
                (sum(engine.cpu_times()[:2]) - used[1]) / WATCHED_S * 100, 1
            ),
            "console memory, MiB": console.memory_info().rss // 2**20,
        }


def main() -> None:
    """Run the engine and the console, and print the figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--upstreams", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        http, port = free_port(), free_port()
        options = (
            "--replicator",
            "submitted",
            "--http-port",
            str(http),
            "--console",
            "--console-port",
            str(port),
        )
        engine = RunningEngine(Path(folder), options)
        asyncio.run(engine.start())
        try:
            asyncio.run(declare(engine.client_url, arguments.streams, arguments.upstreams))
            process = psutil.Process(engine.pid)
            console = next(
                child for child in process.children(recursive=True) if "console" in child.cmdline()
            )
            idle = sum(process.cpu_times()[:2])
            time.sleep(WATCHED_S)
            idle = sum(process.cpu_times()[:2]) - idle
            found = watch(f"http://127.0.0.1:{port}", arguments.streams, console, process)
            found["engine CPU while no browser is open, %"] = round(idle / WATCHED_S * 100, 1)
            for name, address in (
                ("scrape of /metrics", f"http://127.0.0.1:{http}/metrics"),
                ("list as JSON", f"http://127.0.0.1:{port}/api/streams"),
                ("map as JSON", f"http://127.0.0.1:{port}/api/map"),
            ):
                rounds = [fetched(address) for _ in range(5)]
                found[f"{name}, s"] = round(median(each[0] for each in rounds), 3)
                found[f"{name}, KiB"] = rounds[0][1] // 1024
            print(json.dumps(found, indent=2))
        finally:
            asyncio.run(engine.stop())


if __name__ == "__main__":
    main()
