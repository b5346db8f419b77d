"""The page of warnings: what the engines logged lately, as their monitoring ports serve it."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headwater.console.application import console_of
from headwater.console.monitored_pages import asked_page, moment
from headwater.console.payload import visible_text
from headwater.console.rendering import render
from headwater.console.sampler import SampledSite
from headwater.errors import Error

MOST_SHOWN = 200


async def warnings(request: Request) -> Response:
    """Show the last warnings of every site."""
    sites = console_of(request).sampler.sites.values()
    found = await asyncio.gather(*(_of_site(site) for site in sites))
    return render(request, "warnings.html", title="Warnings", sites=found)


async def _of_site(site: SampledSite) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": site.site.name, "problem": "", "dropped": 0, "warnings": []}
    try:
        answer = await asked_page(site, "/warnings", "warnings", "its warnings")
    except Error as error:
        return {**shown, "problem": str(error)}
    rows = [_row(each) for each in answer["warnings"][:MOST_SHOWN] if isinstance(each, dict)]
    return {**shown, "dropped": answer.get("dropped", 0), "warnings": rows}


def _row(warning: dict[str, Any]) -> dict[str, Any]:
    return {
        "time": moment(warning.get("time_s")),
        "level": str(warning.get("level", "")),
        "logger": visible_text(str(warning.get("logger", ""))),
        "message": visible_text(str(warning.get("message", ""))),
        "times": warning.get("times", 1),
    }


ROUTES = (Route("/warnings", warnings),)
