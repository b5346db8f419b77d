"""Every page of the console in a real browser: it draws, it stays current, and stored scripts never run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import nats
import pytest
from playwright.sync_api import Browser, Page, expect

from browsers import PATIENCE_MS, visitor
from console_stage import HOSTILE_NAME, HOSTILE_TEXT, ConsoleStage, console_stage
from headwater.wire.pipeline import QueryReport, ReadOffset
from pipelines.runners import FakeRunner, attached_runner

expect.set_options(timeout=PATIENCE_MS)
HOSTILE = quote(HOSTILE_NAME, safe="")


@pytest.fixture(scope="module")
def stage(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleStage]:
    """Run a hub and an engine without Spark; the browser comes first, so that a missing one skips early."""
    without = ("--replicator", "submitted", "--pipelines", "submitted")
    with console_stage(tmp_path_factory.mktemp("stage"), *without) as running:
        yield running


@pytest.fixture(scope="module")
def address(stage: ConsoleStage) -> str:
    """Run one console for all tests."""
    return stage.console()


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    """Open a window whose errors fail the test."""
    with visitor(chromium) as opened:
        yield opened


def is_live(page: Page) -> None:
    """Return once the page has drawn what the server sent."""
    expect(page.locator("#connection")).to_have_text("live")


def test_the_map_shows_sites_streams_and_copies_and_leads_to_them(page: Page, address: str) -> None:
    page.goto(address)
    is_live(page)
    expect(page.locator(".map .band-name", has_text="hub · nats-server")).to_be_visible()
    expect(page.locator(".map .band-name", has_text="lake · engine")).to_be_visible()
    expect(page.locator(".map .node", has_text="ARCHIVE")).to_be_visible()
    assert page.locator(".map .edge").count() == 7
    expect(page.locator("#links tbody tr", has_text="hub → lake")).to_be_visible()
    page.locator(".map").get_by_role("link", name="HISTORY", exact=True).click()
    expect(page.locator("h1")).to_contain_text("HISTORY")
    is_live(page)
    expect(page.locator("#upstreams tbody tr")).to_have_count(2)


def test_the_list_sorts_filters_and_follows(page: Page, address: str, stage: ConsoleStage) -> None:
    page.goto(f"{address}/streams")
    is_live(page)
    rows = page.locator("#table tbody tr")
    expect(rows).to_have_count(10)
    page.get_by_role("button", name="Messages").click()
    expect(rows.first).to_contain_text("BACKUP")
    expect(rows.nth(1)).to_contain_text("HISTORY")
    page.locator("#filter").fill("orders")
    expect(rows).to_have_count(1)
    expect(page.locator("#count")).to_have_text("1 of 10 streams")
    before = page.locator("body").get_attribute("data-updates") or ""
    expect(page.locator("body")).not_to_have_attribute("data-updates", before)
    page.get_by_role("link", name="ORDERS").click()
    expect(page.locator("h1")).to_contain_text("ORDERS")


def test_a_stream_shows_its_limits_plots_consumers_and_subjects(page: Page, address: str) -> None:
    page.goto(f"{address}/streams/hub/ORDERS?span=1h")
    is_live(page)
    expect(page.locator("#limits")).to_contain_text("30 of 5,000")
    expect(page.locator("#plots svg polyline").first).to_be_attached()
    expect(page.locator("#consumers tbody tr")).to_have_count(2)
    expect(page.locator("#copies tbody tr", has_text="ARCHIVE")).to_be_visible()
    expect(page.locator("#config")).to_contain_text('"max_msgs": 5000')
    expect(page.locator("#files")).to_be_hidden()
    page.locator("#count-subjects").click()
    expect(page.locator("#subjects")).to_contain_text("ORDERS.0")
    page.goto(f"{address}/streams/lake/CLICKS")
    expect(page.locator("#table")).to_contain_text("data files")
    expect(page.locator("#files")).to_contain_text("up to sequence")


def test_sources_show_their_phase_and_one_that_is_stuck_says_why(page: Page, address: str) -> None:
    page.goto(f"{address}/upstreams")
    is_live(page)
    expect(page.locator("#table tbody tr")).to_have_count(7)
    stuck = page.locator("#table tbody tr", has_text="MISSING")
    expect(stuck).to_contain_text("unknown")
    stuck.get_by_role("link", name="MISSING").click()
    expect(page.locator("h1")).to_contain_text("STUCK from MISSING")
    is_live(page)
    expect(page.locator("#tiles")).to_contain_text("lag")
    expect(page.locator("#why")).to_contain_text("What to do: ")


def test_consumers_are_listed_slowest_first(page: Page, address: str) -> None:
    page.goto(f"{address}/consumers")
    is_live(page)
    expect(page.locator("#table tbody tr", has_text="billing")).to_contain_text("30")
    expect(page.locator("#table tbody tr")).to_have_count(4)


def test_the_engine_page_shows_what_metrics_and_readiness_say(page: Page, address: str) -> None:
    page.goto(f"{address}/engine")
    is_live(page)
    expect(page.locator("section", has_text="lake")).to_contain_text("disk free")
    expect(page.locator("section").filter(has_text="hub").first).to_contain_text("nats-server 2.")
    expect(page.locator("#jobs")).to_contain_text("submitted to Spark on its own")
    expect(page.locator("#log")).to_contain_text("monitoring on http")
    page.locator("#level").select_option("error")
    expect(page.locator("#log")).not_to_contain_text("monitoring on http")


async def declare_pipelines(stage: ConsoleStage, runner: FakeRunner) -> None:
    """Create two pipelines; one runs, and one fails with a text that tries to be a script."""
    client = await nats.connect(stage.hub_url)
    runner.inputs = ("CLICKS",)
    reports = []
    clicks = json.loads((await client.request("$JS.lake.API.STREAM.INFO.CLICKS", timeout=60)).data)
    for name in ("WINDOWED", "TRIMMED"):
        wanted = {"target": HOSTILE_NAME, "sql": "SELECT data FROM CLICKS", "subject": "hostile.x"}
        answer = await client.request(
            f"$JS.lake.API.PIPELINE.CREATE.{name}", json.dumps(wanted).encode(), timeout=60
        )
        is_running = name == "WINDOWED"
        reports.append(
            QueryReport(
                id=json.loads(answer.data)["config"]["id"],
                is_running=is_running,
                problem="" if is_running else HOSTILE_TEXT,
                offsets=(ReadOffset(20, clicks["created"]),),
                rate=1234.0,
                batch_ms=850,
                state_rows=4200,
            )
        )
    runner.reports = tuple(reports)
    await client.close()


def test_the_engine_page_lists_pipelines(page: Page, address: str, stage: ConsoleStage) -> None:
    attached = attached_runner(stage.engines["lake"])
    runner = stage.run(attached.__aenter__())
    try:
        stage.run(declare_pipelines(stage, runner))
        page.goto(f"{address}/engine")
        lake = page.locator("section", has=page.locator("h2", has_text="lake"))
        row = lake.locator("tr", has_text="WINDOWED")
        # The console asks once a minute if an engine was too busy to answer.
        expect(row).to_contain_text("running", timeout=3 * PATIENCE_MS)
        expect(row).to_contain_text("4,200")
        expect(lake.locator("tr", has_text="TRIMMED")).to_contain_text("failing")
        expect(lake.locator(".notice", has_text="TRIMMED")).to_contain_text("<img src=x onerror=")
        assert page.evaluate("window.hacked") is None
        for width in (1280, 380):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        row.get_by_role("link", name="CLICKS").click()
        expect(page.locator("h1")).to_contain_text("CLICKS")
    finally:
        stage.run(attached.__aexit__(None, None, None))


@pytest.mark.parametrize(
    "path",
    ["/", "/streams", "/upstreams", "/consumers", "/engine", f"/streams/lake/{HOSTILE}"],
)
def test_stored_scripts_do_not_run(page: Page, address: str, path: str) -> None:
    page.goto(f"{address}{path}")
    is_live(page)
    if HOSTILE in path:
        expect(page.locator("h1")).to_contain_text(HOSTILE_NAME)
        expect(page.locator("#config")).to_contain_text("<script>window.hacked=1</script>")
        page.locator("#count-subjects").click()
        expect(page.locator("#subjects")).to_contain_text("hostile.<img")
    if path == "/consumers":
        expect(page.locator("#table")).to_contain_text("<svg_onload")
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0


def test_a_name_in_an_address_is_shown_as_text(chromium: Browser, address: str) -> None:
    with visitor(chromium, ignored="404 (Not Found)") as page:
        page.goto(f"{address}/streams/lake/%3Cimg%20src=x%20onerror=hacked=1%3E")
        expect(page.locator(".notice.bad")).to_contain_text("<img src=x onerror=hacked=1>")
        assert page.evaluate("window.hacked") is None


@pytest.mark.parametrize("width", [1280, 380])
def test_no_page_is_wider_than_its_window(chromium: Browser, address: str, width: int) -> None:
    with visitor(chromium, width=width) as page:
        for path in ("/", "/streams", "/streams/hub/ORDERS", "/upstreams", "/consumers", "/engine"):
            page.goto(f"{address}{path}")
            is_live(page)
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} pixels wide"


def test_the_keyboard_reaches_links_and_the_theme_is_kept(page: Page, address: str) -> None:
    page.goto(f"{address}/streams")
    is_live(page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.locator("#theme").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert dark == "rgb(15, 22, 32)"


def test_a_login_is_needed_where_a_token_is_set(
    chromium: Browser, stage: ConsoleStage, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("open-sesame")
    address = stage.console("--console-token-file", str(file))
    with visitor(chromium) as page:
        page.goto(f"{address}/streams")
        page.get_by_label("Token").fill("open-sesame")
        page.get_by_role("button", name="Log in").click()
        is_live(page)
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_label("Token")).to_be_visible()


LONG_TABLE = """async () => {
  const { Table } = await import("/static/table.js");
  const place = document.createElement("div");
  place.id = "long";
  document.querySelector("main").replaceChildren(place);
  const columns = [{ key: "name", title: "Name" }, { key: "size", title: "Size" }];
  window.long = new Table(place, columns, { search: (row) => row.name });
  const rows = Array.from({ length: 1000 }, (_, size) => [`row ${String(size).padStart(4, "0")}`, size]);
  window.long.show(Object.fromEntries(rows.map(([name, size]) => [name, { name, size }])));
}"""


def test_a_long_table_draws_rows_when_their_place_comes_near(page: Page, address: str) -> None:
    page.goto(f"{address}/messages")
    page.evaluate(LONG_TABLE)
    rows, more = page.locator("#long tbody tr"), page.locator("#long .more")
    expect(more).to_be_visible()
    assert rows.count() < 500
    page.locator("#long th button", has_text="Size").click()
    expect(rows.first).to_contain_text("row 0999")
    page.evaluate("long.narrow('row 0003')")
    expect(rows).to_have_count(1)
    expect(more).to_be_hidden()
    page.evaluate("long.narrow('')")
    while more.is_visible():
        page.evaluate("scrollTo(0, document.body.scrollHeight)")
    expect(rows).to_have_count(1000)
    expect(rows.last).to_contain_text("row 0000")
