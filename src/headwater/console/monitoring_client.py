"""Reads the monitoring pages of an engine over HTTP, bounded in time and size."""

from __future__ import annotations

import http.client
import json
from typing import Any
from urllib.parse import urlsplit

from headwater.console.scraped_metrics import ScrapedMetrics
from headwater.errors import Error

TIMEOUT_S = 5.0
MOST_BYTES = 64 * 1024 * 1024


class MonitoringClient:
    """Asks one engine's pages; every call blocks, so it runs on a thread."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Error(f"monitoring address {url!r} is invalid: pass http://HOST:PORT")
        self.url = url.rstrip("/")
        self._parts = parts

    def metrics(self) -> ScrapedMetrics:
        """Return the engine's metrics."""
        status, body = self.get("/metrics")
        if status != 200:
            raise Error(f"{self.url}/metrics answers {status}: pass the address of an engine's --http-port")
        return ScrapedMetrics(body.decode("utf-8", "replace"))

    def readiness(self) -> dict[str, Any]:
        """Return what the engine says about its readiness."""
        return self.json("/readyz")

    def json(self, path: str) -> dict[str, Any]:
        """Return a page that is a JSON object; empty if it is none."""
        _, body = self.get(path)
        try:
            found = json.loads(body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of a page."""
        parts = self._parts
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = kind(parts.hostname or "", parts.port, timeout=TIMEOUT_S)
        try:
            connection.request("GET", parts.path.rstrip("/") + path)
            answer = connection.getresponse()
            return answer.status, answer.read(MOST_BYTES)
        except (OSError, http.client.HTTPException) as error:
            raise Error(f"cannot read {self.url}{path}: {error}") from None
        finally:
            connection.close()
