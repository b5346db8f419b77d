"""Monitoring pages with made-up answers, and sites that have their address."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from headwater.client.connection_settings import ConnectionSettings
from headwater.console.watched_site import WatchedSite
from headwater.web.page_server import Answer, Handler, PageServer, Query


def monitored(name: str, port: int) -> WatchedSite:
    """Return a site that does not answer, with a monitoring port; 0 for none."""
    nowhere = ConnectionSettings(server="nats://127.0.0.1:1")
    return WatchedSite(name, nowhere, f"http://127.0.0.1:{port}" if port else "")


def answering(body: Any, status: int = 200, asked: list[Query] | None = None) -> Handler:
    """Return a page that answers this JSON, and notes what it is asked."""

    async def page(query: Query) -> Answer:
        if asked is not None:
            asked.append(query)
        return status, "application/json", json.dumps(body).encode()

    return page


@asynccontextmanager
async def served_pages(pages: Mapping[str, Handler]) -> AsyncIterator[int]:
    """Serve pages, and give their port."""
    server = PageServer(pages)
    port = await server.start("127.0.0.1", 0)
    try:
        yield port
    finally:
        await server.stop()
