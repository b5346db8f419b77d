"""Samples an engine's numbers for its history every few seconds, and answers the /history page."""

from __future__ import annotations

import asyncio
import logging
import math
import os
import resource
import time
from pathlib import Path
from typing import Any

import msgspec

from headwater.meters import Meters
from headwater.monitor.engine_history import (
    ENGINE_COLUMNS,
    RESOLUTIONS,
    STEP_S,
    STREAM_COLUMNS,
    EngineHistory,
)
from headwater.monitor.history_stream import HistoryStream
from headwater.monitor.process_numbers import resident_bytes
from headwater.monitor.served_account import AT_ONCE, ServedAccount
from headwater.monitor.serving_state import ServingState
from headwater.stream.stream import Stream
from headwater.web.page_server import Answer, Query

logger = logging.getLogger(__name__)

_JSON = "application/json"
WRITTEN_EVERY = 6
"""After this many samples one is written to the stream: once a minute."""


class HistorySampler:
    """Fills a history from before the store is open until the engine has stopped."""

    def __init__(
        self, status: ServingState, meters: Meters, store: Path, stream: HistoryStream | None = None
    ) -> None:
        self._stream = stream
        """Where samples are written as well; None for nowhere."""
        self._number = 0
        """The number of the next sample."""
        self._status = status
        self._meters = meters
        self._store = store
        self.history = EngineHistory()

    async def sample_until_cancelled(self) -> None:
        """Take a sample at every step."""
        while True:
            try:
                await self.sample()
            except Exception:
                # The next step may succeed, and the engine works without a history.
                logger.exception("cannot sample the numbers of this engine")
            await asyncio.sleep(STEP_S)

    async def sample(self) -> None:
        """Take one sample; other tasks run between slices of streams."""
        streams: dict[str, tuple[float, ...]] = {}
        consumers = failing = 0
        for account in list(self._status.served):
            for number, stream in enumerate(account.streams(), 1):
                consumers += account.consumers.count(stream)
                numbers, wrong = _stream_numbers(account, stream)
                streams[f"{account.account}/{stream.name}"] = numbers
                failing += wrong
                if number % AT_ONCE == 0:
                    await asyncio.sleep(0)
        row = self._engine_row(streams, consumers, failing)
        self.history.add(row, streams)
        if self._stream is not None and self._number % WRITTEN_EVERY == 0:
            await self._stream.write(self._status.served, row, streams)
        self._number += 1

    def _engine_row(self, streams: dict[str, tuple[float, ...]], consumers: int, failing: int) -> list[float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        rows = list(streams.values())
        return [
            time.time(),
            self._meters.stored_messages,
            self._meters.stored_bytes,
            len(rows),
            consumers,
            sum(row[1] for row in rows),
            sum(row[2] for row in rows),
            sum(row[3] for row in rows if not math.isnan(row[3])),
            failing,
            _free_bytes(self._store),
            resident_bytes(),
            used.ru_utime + used.ru_stime,
        ]

    async def page(self, query: Query) -> Answer:
        """Answer the numbers of the engine, or of one `stream`, at one `step`."""
        steps = [resolution.step_s for resolution in RESOLUTIONS]
        step = query.get("step", str(STEP_S))
        if step not in map(str, steps):
            return _answer(400, {"error": f"step must be one of {', '.join(map(str, steps))}"})
        name = query.get("stream")
        if name is None:
            columns: tuple[str, ...] = ENGINE_COLUMNS
            series = self.history.engine
        else:
            account = query.get("account", "")
            found = self.history.stream(f"{account}/{name}" if account else self._full_name(name))
            if found is None:
                return _answer(404, {"error": "no history of this stream: others changed more lately"})
            columns, series = STREAM_COLUMNS, found
        return _answer(
            200,
            {
                "step_s": int(step),
                "steps_s": steps,
                "columns": columns,
                "rows": series.rows(int(step)),
                "streams": self.history.streams,
            },
        )

    def _full_name(self, stream: str) -> str:
        """Return a stream with the account that has it; the first if several have."""
        return next((name for name in self.history.streams if name.partition("/")[2] == stream), "")


def _stream_numbers(account: ServedAccount, stream: Stream) -> tuple[tuple[float, ...], int]:
    """Return a stream's numbers, and how many of its upstreams show an error."""
    reading = stream.reading
    lag, failing = math.nan, 0
    for upstream in account.upstreams.of(stream.name):
        info = upstream.info(account.clock.now_ns())
        failing += info.error is not None
        if info.progress is not None and info.progress.is_known:
            lag = info.lag if math.isnan(lag) else lag + info.lag
    return (reading.last_seq, reading.messages, reading.size, lag), failing


def _free_bytes(store: Path) -> float:
    try:
        disk = os.statvfs(store)
    except OSError:
        return math.nan
    return disk.f_bavail * disk.f_frsize


def _answer(status: int, body: Any) -> Answer:
    return status, _JSON, msgspec.json.encode(body) + b"\n"
