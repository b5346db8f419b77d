"""The page of an engine's own history: hours that the engine kept, also from before the console started."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.console.application import console_of
from headwater.console.monitored_pages import asked_page, moment
from headwater.console.query_plot import SMALL, QueryPlot, plot_of
from headwater.console.rendering import render
from headwater.console.sampler import SampledSite
from headwater.errors import Error

STEPS = {"10": "1 hour", "60": "6 hours", "300": "1 day"}
MIB, GIB = 1 << 20, 1 << 30
Points = list[tuple[float, float]]


def rate(points: Points) -> Points:
    """Return how fast a counter grew between samples; one that was reset began again at 0."""
    return [
        (later[0], max(later[1] - sooner[1], 0.0) / (later[0] - sooner[0]))
        for sooner, later in pairwise(points)
        if later[0] > sooner[0]
    ]


def scaled(unit: float) -> Callable[[Points], Points]:
    """Return a function that shows values in a unit."""
    return lambda points: [(at, value / unit) for at, value in points]


CHARTS: tuple[tuple[str, str, Callable[[Points], Points]], ...] = (
    ("Stored messages a second", "stored_messages", rate),
    ("Stored MiB a second", "stored_bytes", lambda points: scaled(MIB)(rate(points))),
    ("Messages in all streams", "messages", scaled(1)),
    ("Messages that are not copied yet", "lag", scaled(1)),
    ("Free disk in GiB", "disk_free_bytes", scaled(GIB)),
    ("Memory in MiB", "resident_memory_bytes", scaled(MIB)),
    ("CPU seconds a second", "cpu_seconds", rate),
)


async def history(request: Request) -> Response:
    """Show the history of every engine whose monitoring address is known."""
    step = request.query_params.get("step", "10")
    step = step if step in STEPS else "10"
    sites = console_of(request).sampler.sites.values()
    found = await asyncio.gather(*(_of_site(site, step) for site in sites))
    return render(request, "engine_history.html", title="History", sites=found, step=step, steps=STEPS)


async def _of_site(site: SampledSite, step: str) -> dict[str, Any]:
    try:
        answer = await asked_page(site, f"/history?step={step}", "rows", "its history")
        return {"name": site.site.name, "problem": "", "charts": charts(answer)}
    except Error as error:
        return {"name": site.site.name, "problem": str(error), "charts": []}


def charts(answer: Any) -> list[tuple[str, QueryPlot]]:
    """Return the plots of an engine's answer; raise if it is not a history."""
    columns, rows = answer.get("columns"), answer.get("rows")
    if not isinstance(columns, list) or not isinstance(rows, list) or "time" not in columns:
        raise Error("this engine does not serve its history: it is older than the console")
    found = []
    for title, column, change in CHARTS:
        if column in columns:
            points = change(_points(rows, columns.index("time"), columns.index(column)))
            plot = plot_of(["time", title], [(moment(at), value) for at, value in points], SMALL)
            if plot is not None:
                found.append((title, plot))
    return found


def _points(rows: Sequence[Any], time: int, column: int) -> Points:
    """Return the known values with their times; a row that is no list of numbers is left out."""
    found: Points = []
    for row in rows:
        pair = (row[time], row[column]) if isinstance(row, list) and len(row) > max(time, column) else ()
        if len(pair) == 2 and all(isinstance(each, int | float) and math.isfinite(each) for each in pair):
            found.append((float(pair[0]), float(pair[1])))
    return found


ROUTES = (Route("/history", history),)
