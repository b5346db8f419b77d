"""Three engines and a hub in a real browser: Spark copies, a source lags, one is stuck, one has gaps."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ExternalStream, StreamSource
from playwright.sync_api import Browser, Page, expect

from browsers import PATIENCE_MS, visitor
from console_stage import ConsoleStage, console_stage
from java import require_java
from waits import until

expect.set_options(timeout=PATIENCE_MS)
SPARK = ("--spark-master", "local[1]", "--spark-driver-memory", "512m")
OTHERS = ("shore", "delta")
START_S = 240.0
"""So long Spark may take until it has copied something, beside other tests."""
HUB = ExternalStream(api="$JS.hub.API")
LIVE = (
    "/",
    "/attention",
    "/streams",
    "/streams/lake/ARCHIVE",
    "/streams/shore/SHADOW",
    "/upstreams",
    "/upstreams/lake/GAPPED/0",
    "/upstreams/lake/STUCK/0",
    "/consumers",
    "/engine",
)
"""Pages that are kept current."""
STILL = ("/messages", "/messages/lake/ARCHIVE", "/messages/lake/ARCHIVE/1", "/query", "/warnings", "/changes")


async def declare_more(url: str) -> None:
    """Create a mirror that nobody copies, and a source that misses messages of its origin."""
    client = await nats.connect(url)
    try:
        hub = client.jetstream(timeout=60)
        lake, shore, delta = (client.jetstream(domain=name, timeout=60) for name in ("lake", *OTHERS))
        await shore.add_stream(name="SHADOW", mirror=StreamSource("ORDERS", external=HUB))
        await delta.add_stream(name="EVENTS", subjects=["EVENTS.>"])
        await delta.publish("EVENTS.1", b"{}")
        await hub.add_stream(name="SHORT", subjects=["SHORT"], max_msgs=5)
        await lake.add_stream(name="GAPPED", sources=[StreamSource("SHORT", external=HUB)])
        await hub.publish("SHORT", b"first")
        await until(lambda: holds(lake, "GAPPED", 1), "the first message is copied", patience_s=START_S)
        await until(lambda: holds(lake, "ARCHIVE", 60), "both sources are copied", patience_s=START_S)
        await until(lambda: misses(hub, client, lake), "a gap is recorded", patience_s=START_S)
    finally:
        await client.close()


async def holds(jetstream: JetStreamContext, stream: str, messages: int) -> bool:
    """Return whether a stream has so many messages."""
    return (await jetstream.stream_info(stream)).state.messages >= messages


async def misses(hub: JetStreamContext, client: Client, lake: JetStreamContext) -> bool:
    """Publish more at once than the origin keeps, and return whether the copy holds less than was sent."""
    await asyncio.gather(*(hub.publish("SHORT", b"more") for _ in range(100)))
    answer = await client.request(
        "$JS.lake.API.STREAM.INFO.GAPPED", b"", timeout=60, headers={"Headwater-Progress": "1"}
    )
    return b'"gaps"' in answer.data


@pytest.fixture(scope="module")
def stage(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleStage]:
    """Run the hub and three engines, one of them with Spark."""
    require_java()
    with console_stage(tmp_path_factory.mktemp("site"), *SPARK, others=OTHERS, hostile=False) as running:
        running.run(declare_more(running.hub_url))
        yield running


@pytest.fixture(scope="module")
def address(stage: ConsoleStage) -> str:
    """Run one console of all four sites."""
    return stage.console("--store", str(stage.directory / "lake" / "store"), "--allow-changes")


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    """Open a window whose errors fail the test."""
    with visitor(chromium) as opened:
        yield opened


def opened(page: Page, address: str) -> None:
    """Open a page that is kept current, and return once it is drawn."""
    page.goto(address)
    expect(page.locator("#connection")).to_have_text("live")


def test_the_map_shows_all_sites_and_how_each_copy_is(page: Page, address: str) -> None:
    opened(page, address)
    for name in ("hub · nats-server", "lake · engine", "shore · engine", "delta · engine"):
        expect(page.locator(".map .band-name", has_text=name)).to_be_visible()
    expect(page.locator(".map .edge.bad, .map .edge.unknown").first).to_be_attached()
    expect(page.locator(".map .edge.good").first).to_be_attached()
    expect(page.locator("#links tbody tr", has_text="hub → lake")).to_be_visible()
    expect(page.locator("#links tbody tr", has_text="hub → shore")).to_contain_text("30")


def test_copies_are_live_lag_are_stuck_or_have_gaps(page: Page, address: str) -> None:
    opened(page, f"{address}/upstreams")
    rows = page.locator("#table tbody tr")
    expect(rows.filter(has_text="ARCHIVE").filter(has_text="PAYMENTS")).to_contain_text("live")
    expect(rows.filter(has_text="SHADOW")).to_contain_text("30")
    expect(rows.filter(has_text="MISSING")).to_contain_text("stream not found")
    expect(rows.filter(has_text="GAPPED")).to_contain_text("sequences were removed before they were copied")
    rows.filter(has_text="GAPPED").get_by_role("link", name="SHORT").click()
    expect(page.locator("h1")).to_contain_text("GAPPED from SHORT")
    expect(page.locator("#gaps tbody tr").first).to_contain_text("retention")


def test_what_needs_attention_has_a_row_for_each(page: Page, address: str) -> None:
    opened(page, f"{address}/attention")
    rows = page.locator("#table tbody tr")
    expect(rows.filter(has_text="STUCK from MISSING")).to_contain_text("critical")
    expect(rows.filter(has_text="GAPPED from SHORT").first).to_be_visible()


@pytest.mark.parametrize("width", [1280, 380])
def test_every_page_opens_and_fits_its_window(chromium: Browser, address: str, width: int) -> None:
    with visitor(chromium, width=width) as page:
        for path in (*LIVE, *STILL):
            page.goto(f"{address}{path}")
            if path in LIVE:
                expect(page.locator("#connection")).to_have_text("live")
            expect(page.locator("h1")).to_be_visible()
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} pixels wide"


def test_the_engine_page_shows_all_engines_and_a_query_reads_what_spark_copied(
    page: Page, address: str
) -> None:
    opened(page, f"{address}/engine")
    for name in ("lake", *OTHERS):
        expect(page.locator("section", has=page.locator("h2", has_text=name))).to_contain_text("disk free")
    page.goto(f"{address}/query")
    page.locator("#sql").fill("SELECT count(*) AS copied FROM archive")
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#answer tbody tr")).to_contain_text("60")


def test_an_engine_that_is_killed_is_reported_until_it_is_back(
    page: Page, address: str, stage: ConsoleStage
) -> None:
    opened(page, f"{address}/streams")
    site = page.locator("#sites .site", has_text="delta")
    expect(site).to_contain_text("1 streams")
    stage.run(stage.engines["delta"].kill())
    expect(site).to_contain_text("the engine is not reachable")
    expect(page.locator("#table tbody tr", has_text="EVENTS")).to_be_visible()
    expect(page.locator("#connection")).to_have_text("live")
    stage.run(stage.engines["delta"].start())
    expect(site).to_contain_text("1 streams")


def test_a_console_that_is_killed_is_reported_and_its_page_continues_once_it_is_back(
    chromium: Browser, stage: ConsoleStage
) -> None:
    address = stage.console()
    with visitor(chromium, ignored="net::ERR_") as page:
        opened(page, f"{address}/streams")
        stage.consoles[-1].kill()
        stage.consoles[-1].wait()
        expect(page.locator("#connection")).to_have_text("no connection to the console")
        expect(page.locator("#table tbody tr", has_text="EVENTS")).to_be_visible()
        stage.console(port=int(address.rpartition(":")[2]))
        expect(page.locator("#connection")).to_have_text("live")
