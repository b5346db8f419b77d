"""The warnings of engines, as their monitoring ports serve them."""

from __future__ import annotations

import logging
from pathlib import Path

from consoles import open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.watched_site import WatchedSite
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.settings import Settings
from headwater.web.page_server import Answer, PageServer, Query


def site(name: str, port: int) -> WatchedSite:
    nowhere = ConnectionSettings(server="nats://127.0.0.1:1")
    return WatchedSite(name, nowhere, f"http://127.0.0.1:{port}" if port else "")


async def test_warnings_of_every_site_are_shown_as_text(tmp_path: Path) -> None:
    async def strange(query: Query) -> Answer:
        return 200, "application/json", b'{"warnings": [7, {"time_s": "x", "message": 5}], "dropped": 3}'

    async def old(query: Query) -> Answer:
        return 404, "text/plain", b"no such page\n"

    monitor = EngineMonitor(Settings(), tmp_path)
    async with monitor.running():
        logging.getLogger("headwater.probe").warning("<b>disk</b> is slow")
        pages = (monitor.pages.by_path, {"/warnings": strange}, {"/warnings": old})
        servers = [PageServer(each) for each in pages]
        ports = [await server.start("127.0.0.1", 0) for server in servers]
        sites = [site("east", ports[0]), site("odd", ports[1]), site("old", ports[2]), site("plain", 0)]
        async with open_console([*sites, site("gone", 1)]) as console:
            text = (await console.get("/warnings")).text
        for server in servers:
            await server.stop()
    assert "&lt;b&gt;disk&lt;/b&gt; is slow" in text
    assert "3 older ones are not kept" in text
    assert "older than the console" in text
    assert "start the engine with --http-port" in text
    assert "cannot read http://127.0.0.1:1/warnings" in text
