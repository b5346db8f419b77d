"""Every page of the console: the one place where a page is added."""

from __future__ import annotations

from starlette.routing import Route

from headwater.console.console_page import ConsolePage
from headwater.console.rendering import MenuEntry
from headwater.console.streams_view import streams_view

PAGES = (ConsolePage("/streams", "Streams", "streams.html", streams_view, menu_order=20),)
"""Pages that are kept current."""

ROUTES: tuple[Route, ...] = ()
"""Pages and downloads whose handlers do everything themselves."""

MENU: tuple[MenuEntry, ...] = ()
"""Their links in the navigation."""
