"""What engines do at the moment: the jobs of their replicators, and the ends of their logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headwater.console.application import console_of
from headwater.console.monitored_pages import asked_page
from headwater.console.payload import visible_text
from headwater.console.sampler import SampledSite
from headwater.errors import Error

LEVELS = ("debug", "info", "warning", "error")
MOST_LINES = 200
MOST_JOBS = 50
MOST_COPIES = 20
_JOB_NUMBERS = ("began_s", "seconds", "tasks", "done", "failed", "messages", "messages_per_s", "read_bytes")

OfSite = Callable[[SampledSite], Awaitable[dict[str, Any]]]
"""Returns what one engine answers."""


async def jobs(request: Request) -> Response:
    """Answer the jobs of the replicators of all sites."""
    return await _of_all(request, _jobs_of)


async def log(request: Request) -> Response:
    """Answer the last lines of the logs of all sites, of at least a level."""
    level = request.query_params.get("level", "info")
    if level not in LEVELS:
        raise HTTPException(400, f"level must be one of {', '.join(LEVELS)}")

    async def lines_of(site: SampledSite) -> dict[str, Any]:
        answer = await asked_page(site, f"/log?level={level}&limit={MOST_LINES}", "lines", "its log")
        return {"lines": [_line(each) for each in answer["lines"][:MOST_LINES] if isinstance(each, dict)]}

    return await _of_all(request, lines_of)


async def _of_all(request: Request, of_site: OfSite) -> Response:
    """Answer what each site says, or why it says nothing; a site without a monitoring port is left out."""
    sites = [
        site for site in console_of(request).sampler.sites.values() if site.reader.monitoring is not None
    ]
    found = await asyncio.gather(*(_or_problem(site, of_site) for site in sites))
    return JSONResponse({site.site.name: each for site, each in zip(sites, found, strict=True)})


async def _or_problem(site: SampledSite, of_site: OfSite) -> dict[str, Any]:
    try:
        return {"problem": "", **await of_site(site)}
    except Error as error:
        return {"problem": str(error)}


async def _jobs_of(site: SampledSite) -> dict[str, Any]:
    answer = await asked_page(site, "/replicator", "jobs", "the jobs of its replicator")
    return {
        "is_started_here": answer.get("is_started_here") is True,
        "is_running": answer.get("is_running") is True,
        "restarts": _number(answer.get("restarts")),
        "why": visible_text(str(answer.get("problem") or "")),
        "jobs": [_job(each) for each in answer["jobs"][:MOST_JOBS] if isinstance(each, dict)],
    }


def _job(given: dict[str, Any]) -> dict[str, Any]:
    copies, kinds = given.get("copies"), given.get("kinds")
    return {
        **{name: _number(given.get(name)) for name in _JOB_NUMBERS},
        "is_running": given.get("is_running") is True,
        "account": visible_text(str(given.get("account", ""))),
        "error": visible_text(str(given.get("error", ""))),
        "copies": [
            {name: visible_text(str(each.get(name, ""))) for name in ("stream", "origin")}
            for each in (copies if isinstance(copies, list) else [])[:MOST_COPIES]
            if isinstance(each, dict)
        ],
        "more_copies": _number(given.get("more_copies")),
        "kinds": sorted(str(name)[:20] for name in kinds) if isinstance(kinds, dict) else [],
    }


def _line(given: dict[str, Any]) -> dict[str, Any]:
    return {
        "time_s": _number(given.get("time_s")),
        "times": _number(given.get("times")),
        **{name: visible_text(str(given.get(name, ""))) for name in ("level", "logger", "message")},
    }


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


ROUTES = (Route("/activity/jobs", jobs), Route("/activity/log", log))
