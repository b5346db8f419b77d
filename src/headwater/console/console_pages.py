"""Every page of the console: the one place where a page is added."""

from __future__ import annotations

from starlette.routing import Route

from headwater.console import change_pages, messages_pages, query_pages, warnings_pages
from headwater.console.attention import attention_view
from headwater.console.console_page import ConsolePage
from headwater.console.rendering import MenuEntry
from headwater.console.streams_view import streams_view

PAGES = (
    ConsolePage("/attention", "Needs attention", "attention.html", attention_view, menu_order=15),
    ConsolePage("/streams", "Streams", "streams.html", streams_view, menu_order=20),
)
"""Pages that are kept current."""

ROUTES: tuple[Route, ...] = (
    *messages_pages.ROUTES,
    *query_pages.ROUTES,
    *warnings_pages.ROUTES,
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
