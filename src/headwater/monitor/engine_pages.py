"""The pages of an engine: liveness, readiness, metrics, history, log, tables, and links to them."""

from __future__ import annotations

import html
import logging

import msgspec

from headwater.monitor.exposition import CONTENT_TYPE
from headwater.monitor.history_sampler import HistorySampler
from headwater.monitor.metrics import Metrics
from headwater.monitor.recent_log import MOST_KEPT, RecentLog
from headwater.monitor.replicator_page import ReplicatorPage
from headwater.monitor.serving_state import EnginePhase, ServingState
from headwater.monitor.table_page import TablePage, bounded
from headwater.version import VERSION
from headwater.web.page_server import Answer, Handler, Query

_TEXT = "text/plain; charset=utf-8"


class EnginePages:
    """Every page that an engine serves, by path; accounts add theirs while they are served."""

    def __init__(
        self,
        status: ServingState,
        metrics: Metrics,
        history: HistorySampler,
        log: RecentLog,
        warnings: RecentLog,
    ) -> None:
        self._status = status
        self._metrics = metrics
        self._logged = log
        self._warned = warnings
        self.by_path: dict[str, Handler] = {
            "/": self._index,
            "/healthz": self._health,
            "/readyz": self._readiness,
            "/metrics": self._scrape,
            "/history": history.page,
            "/warnings": self._warnings,
            "/log": self._log,
            "/table": TablePage(status).page,
            "/replicator": ReplicatorPage(status).page,
        }

    def add(self, pages: dict[str, Handler]) -> None:
        """Serve more pages."""
        self.by_path |= pages

    def remove(self, pages: dict[str, Handler]) -> None:
        """Stop serving pages that were added; others under the same path stay."""
        for path, handler in pages.items():
            if self.by_path.get(path) is handler:
                del self.by_path[path]

    async def _index(self, query: Query) -> Answer:
        paths = (html.escape(path) for path in sorted(self.by_path) if path != "/")
        links = "".join(f'<li><a href="{path}">{path}</a></li>\n' for path in paths)
        title = f"Headwater {html.escape(VERSION)}"
        page = (
            f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>\n'
            f"<body><h1>{title}</h1>\n<p>This engine is {self._status.phase}.</p>\n<ul>\n{links}</ul>"
            "</body></html>\n"
        )
        return 200, "text/html; charset=utf-8", page.encode()

    async def _health(self, query: Query) -> Answer:
        """Answer that the event loop runs: an engine that cannot is not alive."""
        return 200, _TEXT, b"ok\n"

    async def _readiness(self, query: Query) -> Answer:
        """Answer 200 if clients are served and nothing is wrong, else 503 with the reasons."""
        status = self._status
        checks = status.checks()
        problems = {check.name: check.problem for check in checks if check.problem}
        is_fine = not problems or (status.phase is EnginePhase.STANDBY and query.get("standby") == "ok")
        body = {
            "ready": not problems,
            "phase": str(status.phase),
            "checks": {check.name: check.problem or "ok" for check in checks},
        }
        encoded = msgspec.json.format(msgspec.json.encode(body), indent=2) + b"\n"
        return 200 if is_fine else 503, "application/json", encoded

    async def _scrape(self, query: Query) -> Answer:
        return 200, CONTENT_TYPE, await self._metrics.text()

    async def _warnings(self, query: Query) -> Answer:
        """Answer the last warnings and errors that were logged, without secrets."""
        body = {"dropped": self._warned.dropped, "warnings": self._warned.listed()}
        return 200, "application/json", msgspec.json.encode(body) + b"\n"

    async def _log(self, query: Query) -> Answer:
        """Answer the last lines of the log of at least a `level`, at most `limit`, without secrets."""
        level = query.get("level", "debug").upper()
        least = logging.getLevelNamesMapping().get(level)
        if least is None:
            return 400, _TEXT, b"level must be debug, info, warning or error\n"
        body = {
            "dropped": self._logged.dropped,
            "lines": self._logged.listed(least, bounded(query, "limit", 200, MOST_KEPT)),
        }
        return 200, "application/json", msgspec.json.encode(body) + b"\n"
