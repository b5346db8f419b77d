"""The page of warnings: what the engines logged lately, as their monitoring ports serve it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.console.application import console_of
from headwater.console.payload import visible_text
from headwater.console.rendering import render
from headwater.console.sampler import SampledSite
from headwater.errors import Error

WHY_NOT = "the address of its monitoring port is not known: start the engine with --http-port"
MOST_SHOWN = 200


async def warnings(request: Request) -> Response:
    """Show the last warnings of every site."""
    sites = console_of(request).sampler.sites.values()
    found = await asyncio.gather(*(_of_site(site) for site in sites))
    return render(request, "warnings.html", title="Warnings", sites=found)


async def _of_site(site: SampledSite) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": site.site.name, "problem": "", "dropped": 0, "warnings": []}
    monitoring = site.reader.monitoring
    if monitoring is None:
        return {**shown, "problem": WHY_NOT}
    try:
        answer = await asyncio.to_thread(monitoring.json, "/warnings")
    except Error as error:
        return {**shown, "problem": str(error)}
    listed = answer.get("warnings")
    if not isinstance(listed, list):
        return {**shown, "problem": "this engine does not serve its warnings: it is older than the console"}
    rows = [_row(each) for each in listed[:MOST_SHOWN] if isinstance(each, dict)]
    return {**shown, "dropped": answer.get("dropped", 0), "warnings": rows}


def _row(warning: dict[str, Any]) -> dict[str, Any]:
    return {
        "time": _moment(warning.get("time_s")),
        "level": str(warning.get("level", "")),
        "logger": visible_text(str(warning.get("logger", ""))),
        "message": visible_text(str(warning.get("message", ""))),
        "times": warning.get("times", 1),
    }


def _moment(seconds: Any) -> str:
    try:
        return datetime.fromtimestamp(float(seconds), UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (TypeError, ValueError, OverflowError, OSError):
        return ""


ROUTES = (Route("/warnings", warnings),)
