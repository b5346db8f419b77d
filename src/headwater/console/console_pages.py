"""Every page of the console: the one place where a page is added."""

from __future__ import annotations

from starlette.routing import Route

from headwater.console import (
    change_pages,
    engine_activity,
    history_pages,
    messages_pages,
    query_pages,
    table_files,
    warnings_pages,
)
from headwater.console.attention import attention_view
from headwater.console.console_page import ConsolePage
from headwater.console.consumers_view import consumers_view
from headwater.console.engine_view import engine_view
from headwater.console.map_view import map_view
from headwater.console.rendering import MenuEntry
from headwater.console.stream_view import stream_view
from headwater.console.streams_view import streams_view
from headwater.console.subjects import subjects
from headwater.console.upstreams_view import upstream_view, upstreams_view

PAGES = (
    ConsolePage("/", "Map", "map.html", map_view, menu_order=10),
    ConsolePage("/attention", "Needs attention", "attention.html", attention_view, menu_order=15),
    ConsolePage("/streams", "Streams", "streams.html", streams_view, menu_order=20),
    ConsolePage("/streams/{site}/{stream}", "Stream", "stream.html", stream_view, in_menu=False),
    ConsolePage("/upstreams", "Sources and mirrors", "upstreams.html", upstreams_view, menu_order=30),
    ConsolePage(
        "/upstreams/{site}/{stream}/{place:int}", "Source", "upstream.html", upstream_view, in_menu=False
    ),
    ConsolePage("/consumers", "Consumers", "consumers.html", consumers_view, menu_order=40),
    ConsolePage("/engine", "Engine", "engine.html", engine_view, menu_order=50),
)
"""Pages that are kept current."""

ROUTES: tuple[Route, ...] = (
    Route("/subjects/{site}/{stream}", subjects),
    *table_files.ROUTES,
    *engine_activity.ROUTES,
    *messages_pages.ROUTES,
    *query_pages.ROUTES,
    *warnings_pages.ROUTES,
    *history_pages.ROUTES,
    *change_pages.ROUTES,
)
"""Pages and downloads whose handlers do everything themselves."""

MENU: tuple[MenuEntry, ...] = (
    MenuEntry("/messages", "Messages", 25),
    MenuEntry("/query", "Query", 60),
    MenuEntry("/changes", "Changes", 70),
)
"""Their links in the navigation."""


def menu_of(*, allow_changes: bool) -> list[MenuEntry]:
    """Return the links; the pages that change something are offered only where they may."""
    return [entry for entry in MENU if allow_changes or entry.path != "/changes"]
