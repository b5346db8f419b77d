"""The history that engines keep, drawn by the console."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consoles import open_console
from headwater.client.connection_settings import ConnectionSettings
from headwater.console.history_pages import CHARTS, charts, rate
from headwater.console.watched_site import WatchedSite
from headwater.errors import Error
from headwater.meters import Meters
from headwater.monitor.engine_history import ENGINE_COLUMNS
from headwater.monitor.history_sampler import HistorySampler
from headwater.monitor.serving_state import ServingState
from headwater.web.page_server import PageServer

NOWHERE = ConnectionSettings(server="nats://127.0.0.1:1")


async def test_an_engines_history_is_drawn_and_other_sites_say_why_not(tmp_path: Path) -> None:
    sampler = HistorySampler(ServingState(), Meters(), tmp_path)
    for _ in range(3):
        await sampler.sample()
    server = PageServer({"/history": sampler.page})
    port = await server.start("127.0.0.1", 0)
    sites = [
        WatchedSite("east", NOWHERE, f"http://127.0.0.1:{port}"),
        WatchedSite("plain", NOWHERE),
        WatchedSite("gone", NOWHERE, "http://127.0.0.1:1"),
    ]
    async with open_console(sites) as console:
        text = (await console.get("/history?step=evil")).text
        short = (await console.get("/history?step=300")).text
    await server.stop()
    assert "<figcaption>Free disk in GiB</figcaption>" in text
    assert "<polyline" in text
    assert "start the engine with --http-port" in text
    assert "cannot read http://127.0.0.1:1/history" in text
    assert "not enough samples yet" in short, "one sample in five minutes is no line"


def test_every_chart_is_of_a_column_that_engines_have() -> None:
    assert {column for _, column, _ in CHARTS} <= set(ENGINE_COLUMNS)


def test_a_counter_becomes_a_rate_and_a_restart_is_not_negative() -> None:
    assert rate([(0, 0), (10, 50), (20, 0), (30, 10)]) == [(10, 5), (20, 0), (30, 1)]
    assert rate([(0, 0), (0, 50)]) == []


@pytest.mark.parametrize("answer", [{}, {"columns": 7, "rows": []}, {"columns": ["lag"], "rows": []}])
def test_what_is_no_history_is_refused(answer: Any) -> None:
    with pytest.raises(Error, match="older than the console"):
        charts(answer)


def test_rows_that_are_malformed_are_left_out() -> None:
    rows: list[Any] = [7, [1], ["x", 2], [1.0, None], [1.0, 5], [11.0, 6], [1e300, 6]]
    (chart,) = charts({"columns": ["time", "lag"], "rows": rows})
    assert chart[0] == "Messages that are not copied yet"
