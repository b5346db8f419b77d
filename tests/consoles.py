"""Consoles for tests: one in this process on a free port, and snapshots that were never read from a site."""

from __future__ import annotations

import asyncio
import http.client
import ssl
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from headwater.client.connection_settings import ConnectionSettings
from headwater.console.console_server import ConsoleSettings, bound_socket, server
from headwater.console.sampler import Sampler
from headwater.console.scraped_metrics import ScrapedMetrics
from headwater.console.snapshot import SiteSnapshot
from headwater.console.watched_site import WatchedSite
from waits import until


def stream_answer(name: str, messages: int = 0, **more: Any) -> dict[str, Any]:
    """Return what STREAM.INFO answers for a stream; `more` replaces its parts."""
    return {
        "config": {"name": name, "subjects": [f"{name}.>"], "retention": "limits", "storage": "file"},
        "created": "2026-11-16T10:00:00Z",
        "state": {"messages": messages, "bytes": messages * 100, "first_seq": 1, "last_seq": messages},
        **more,
    }


def upstream_answer(name: str, **more: Any) -> dict[str, Any]:
    """Return what an engine answers for a source that is live; `more` replaces its parts."""
    progress = {"phase": "live", "seq": 10, "done": 1.0, "rate": {"msgs": 5.0, "bytes": 500.0}, "behind": 0.0}
    return {"name": name, "lag": 0, "active": 1_000_000, "headwater": progress, **more}


def sampler_with(*streams: Mapping[str, Any], site: str = "local", metrics: str = "", **more: Any) -> Sampler:
    """Return a sampler of one site that has read these streams a moment ago."""
    sampler = Sampler([WatchedSite(site, ConnectionSettings())])
    sampled = sampler.sites[site]
    sampled.snapshot = SiteSnapshot(
        site,
        time.time(),
        streams={str(info["config"]["name"]): info for info in streams},
        metrics=ScrapedMetrics(metrics) if metrics else None,
        **more,
    )
    return sampler


@dataclass
class Visit:
    """The answer of a console to one request."""

    status: int
    headers: Mapping[str, str]
    text: str


@dataclass
class OpenConsole:
    """A console that runs in this process."""

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    """How to trust it if it serves TLS."""

    async def get(self, path: str, method: str = "GET", body: str = "", **headers: str) -> Visit:
        """Return what it answers; `_` in the names of headers is `-`."""
        return await asyncio.to_thread(self._get, path, method, body, headers)

    def _get(self, path: str, method: str, body: str, headers: Mapping[str, str]) -> Visit:
        connection = (
            http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=self.tls)
            if self.tls is not None
            else http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        )
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body.encode() or None, sent)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Visit(answer.status, found, answer.read().decode())
        finally:
            connection.close()

    async def events(self, path: str, count: int) -> list[str]:
        """Return the first lines of data that a live page sends."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            found: list[str] = []
            async with asyncio.timeout(60):
                while len(found) < count:
                    line = (await reader.readline()).decode()
                    assert line, f"the events ended after {found}"
                    if line.startswith("data: "):
                        found.append(line.removeprefix("data: ").strip())
            return found
        finally:
            writer.close()


@asynccontextmanager
async def open_console(sites: Sequence[WatchedSite], **settings: Any) -> AsyncIterator[OpenConsole]:
    """Serve a console that watches these sites."""
    chosen = ConsoleSettings(**{"port": 0, "interval_s": 0.2, **settings})
    listener = bound_socket(chosen)
    running = server(sites, chosen)
    task = asyncio.create_task(running.serve(sockets=[listener]))
    try:
        await until(lambda: running.started or task.done())
        yield OpenConsole(chosen.host, listener.getsockname()[1])
    finally:
        running.should_exit = True
        await task
        listener.close()
