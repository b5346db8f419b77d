"""Messages, queries, attention and changes in a real browser, with and without permission."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from browsers import PATIENCE_MS, visitor
from console_stage import HOSTILE_NAME, HOSTILE_TEXT, ConsoleStage, console_stage

expect.set_options(timeout=PATIENCE_MS)
HOSTILE = quote(HOSTILE_NAME, safe="")


@pytest.fixture(scope="module")
def stage(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleStage]:
    """Run a hub and an engine without Spark; the browser comes first, so that a missing one skips early."""
    with console_stage(tmp_path_factory.mktemp("stage"), "--replicator", "submitted") as running:
        yield running


@pytest.fixture(scope="module")
def address(stage: ConsoleStage) -> str:
    """Run one console that may change everything and query the engine's tables."""
    return stage.console("--allow-changes", "--store", str(stage.directory / "lake" / "store"))


@pytest.fixture
def page(chromium: Browser, address: str) -> Iterator[Page]:
    """Open a window whose errors fail the test."""
    with visitor(chromium) as opened:
        yield opened


def test_messages_are_browsed_searched_and_downloaded(page: Page, address: str) -> None:
    page.goto(f"{address}/messages")
    page.get_by_role("link", name="ORDERS", exact=True).click()
    expect(page.locator("#messages tbody tr")).to_have_count(25)
    page.locator("#older").click()
    expect(page.locator("#messages tbody tr").first).to_contain_text("1")
    page.locator("#search input[name=expression]").fill("json.price > 4 and seq > 28")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#result")).to_contain_text("2 found in")
    page.get_by_role("link", name="29", exact=True).click()
    expect(page.locator("#json .leaf").first).to_contain_text('item: "popcorn"')
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download the payload").click()
    assert json.loads(saved.value.path().read_bytes())["price"] == 4.5


def test_stored_scripts_stay_text(page: Page, address: str) -> None:
    page.goto(f"{address}/messages/lake/{HOSTILE}")
    expect(page.locator("h1")).to_contain_text(HOSTILE_NAME)
    page.get_by_role("link", name="1", exact=True).click()
    expect(page.locator("#headers")).to_contain_text(HOSTILE_TEXT)
    expect(page.locator("#text")).to_have_text(HOSTILE_TEXT)
    page.goto(f"{address}/changes/lake/{HOSTILE}")
    expect(page.locator("h1")).to_contain_text(HOSTILE_NAME)
    page.goto(f"{address}/query")
    expect(page.locator("main")).to_contain_text(HOSTILE_NAME)
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script").count() == 0


def test_a_query_shows_its_rows_and_a_hostile_one_its_refusal(chromium: Browser, address: str) -> None:
    with visitor(chromium, ignored="422 (Unprocessable") as page:
        page.goto(f"{address}/query")
        page.locator("#sql").fill("SELECT range AS n, range * 2 AS twice FROM range(5)")
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#answer tbody tr")).to_have_count(5)
        expect(page.locator("#plot polyline")).to_have_count(1)
        page.locator("#sql").fill("SELECT content FROM read_text('/etc/hostname')")
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#problem")).to_contain_text("read_text is not allowed")


def test_a_stream_is_created_changed_purged_and_deleted(chromium: Browser, address: str) -> None:
    with visitor(chromium, ignored="422 (Unprocessable") as page:
        page.goto(f"{address}/changes")
        form = page.locator("#new-stream")
        form.get_by_label("Site").select_option("lake")
        form.get_by_label("Name").fill("MADE")
        form.get_by_label("Subjects").fill("made.>")
        form.get_by_role("button", name="Preview").click()
        expect(page.locator("#config")).to_have_value(re.compile(r"made\.>"))
        page.get_by_role("button", name="Create the stream").click()
        expect(page.locator("#done")).to_have_text("The stream was created.")

        page.get_by_text("New consumer").click()
        page.locator("#new-consumer").get_by_label("Name").fill("reader")
        page.locator("#new-consumer").get_by_role("button", name="Preview").click()
        page.get_by_role("button", name="Create the consumer").click()
        page.get_by_role("button", name="Pause").click()
        expect(page.locator(".badge", has_text="paused")).to_be_visible()
        page.get_by_role("button", name="Resume").click()
        expect(page.locator("#done")).to_have_text("The consumer delivers again.")

        for name, outcome in (("made", "#problem"), ("MADE", "#done")):
            page.locator("#purge").get_by_label("to confirm").fill(name)
            page.get_by_role("button", name="Purge").click()
            expect(page.locator(outcome)).to_be_visible()
        page.locator("#delete").get_by_label("to confirm").fill("MADE")
        page.locator("#delete button").click()
        expect(page.locator("#done")).to_have_text("It was deleted.")


def test_what_needs_attention_appears_and_goes(page: Page, address: str) -> None:
    page.goto(f"{address}/changes")
    form = page.locator("#new-stream")
    form.get_by_label("Site").select_option("lake")
    form.get_by_label("Name").fill("LOST")
    form.get_by_label("Mirror of").fill("NOWHERE")
    form.get_by_role("button", name="Preview").click()
    page.get_by_role("button", name="Create the stream").click()
    expect(page.locator("#done")).to_be_visible()
    page.goto(f"{address}/attention")
    row = page.locator("#table tbody tr", has_text="LOST from NOWHERE")
    expect(row).to_contain_text("stream not found")
    expect(row).to_contain_text("critical")
    page.goto(f"{address}/changes/lake/LOST")
    page.locator("#delete").get_by_label("to confirm").fill("LOST")
    page.locator("#delete button").click()
    page.goto(f"{address}/attention")
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#table tbody tr", has_text="LOST from NOWHERE")).to_have_count(0)


def test_without_permission_there_is_no_way_to_change_anything(
    chromium: Browser, stage: ConsoleStage
) -> None:
    address = stage.console()
    with visitor(chromium, ignored="403 (Forbidden") as page:
        page.goto(f"{address}/messages")
        expect(page.get_by_role("link", name="Changes")).to_have_count(0)
        page.goto(f"{address}/changes/lake/CLICKS")
        expect(page.locator(".notice.bad")).to_contain_text("--allow-changes")
        page.goto(f"{address}/query")
        expect(page.locator("#why-not")).to_contain_text("--store PATH")


@pytest.mark.parametrize("width", [1280, 380])
def test_these_pages_are_not_wider_than_their_window(chromium: Browser, address: str, width: int) -> None:
    paths = (
        "/warnings",
        "/messages",
        "/messages/hub/ORDERS?seq=1",
        "/messages/hub/ORDERS/1",
        f"/messages/lake/{HOSTILE}/1",
        "/query",
        "/changes",
        "/changes/hub/ORDERS",
    )
    with visitor(chromium, width=width) as page:
        page.goto(f"{address}/attention")
        expect(page.locator("#connection")).to_have_text("live")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for path in paths:
            page.goto(f"{address}{path}")
            expect(page.locator("h1")).to_be_visible()
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width, f"{path} is {wide} pixels wide"
