"""The monitoring of one engine: what it counts, its status, and the port with its pages."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.errors import SettingsError
from headwater.meters import Meters
from headwater.monitor.engine_pages import EnginePages
from headwater.monitor.history_sampler import HistorySampler
from headwater.monitor.history_stream import HistoryStream
from headwater.monitor.loop_delay import measure
from headwater.monitor.metrics import Metrics
from headwater.monitor.recent_log import MOST_WARNINGS, RecentLog
from headwater.monitor.serving_state import ServingState
from headwater.settings import Settings
from headwater.web.page_server import PageServer

logger = logging.getLogger(__name__)
_ENGINE_LOGGER = logging.getLogger("headwater")


class EngineMonitor:
    """Runs from before the store is locked until the engine has stopped."""

    def __init__(self, settings: Settings, store: Path) -> None:
        self._host = settings.http_host
        self.port = settings.http_port
        """The port that the engine's pages are wanted on; None for none."""
        self.meters = Meters()
        self.status = ServingState(max(len(settings.seats), 1))
        self.metrics = Metrics(self.status, self.meters, store, settings.metrics_streams)
        written = HistoryStream(settings.history_stream) if settings.history_stream else None
        self._history = HistorySampler(self.status, self.meters, store, written)
        self._log = RecentLog()
        self._warnings = RecentLog(logging.WARNING, MOST_WARNINGS)
        self.pages = EnginePages(self.status, self.metrics, self._history, self._log, self._warnings)
        self._server: PageServer | None = None
        """The server of the pages once it has the port."""
        self._bound = 0
        """The port that it has."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Measure and sample for the length of a block, and release the port at its end."""
        tasks = [
            asyncio.create_task(measure(self.meters.loop_delay), name="loop delay"),
            asyncio.create_task(self._history.sample_until_cancelled(), name="history"),
        ]
        for kept in (self._log, self._warnings):
            _ENGINE_LOGGER.addHandler(kept)
        try:
            yield
        finally:
            for kept in (self._log, self._warnings):
                _ENGINE_LOGGER.removeHandler(kept)
            for task in tasks:
                task.cancel()
            if self._server is not None:
                await self._server.stop()

    async def listen_if_free(self) -> None:
        """Serve the pages while the engine waits; on the same machine the active engine may have the port."""
        try:
            await self._listen("standby: monitoring")
        except OSError as error:
            logger.warning("cannot serve monitoring on port %s as a standby: %s", self.port, error)

    async def listen(self) -> None:
        """Serve the pages; raise an error if another process has the port."""
        try:
            await self._listen("monitoring")
        except OSError as error:
            raise SettingsError(f"http_port: cannot listen on {self._host}:{self.port}: {error}") from None

    async def _listen(self, words: str) -> None:
        if self.port is None:
            return
        if self._server is None:
            server = PageServer(self.pages.by_path)
            self._bound = await server.start(self._host, self.port)
            self._server = server
        logger.info("%s on http://%s:%d", words, self._host, self._bound)
