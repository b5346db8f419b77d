"""The subjects of one stream with their counts, asked for when a person wants them."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from headwater.console.application import console_of

MOST_SHOWN = 200
MOST_PAGES = 20
"""A page has up to 100,000 subjects."""


async def subjects(request: Request) -> Response:
    """Answer the subjects with the most messages."""
    api = await console_of(request).api(request.path_params["site"])
    counts: dict[str, int] = {}
    pages = 0
    async for page in api.each_page(f"STREAM.INFO.{request.path_params['stream']}", {"subjects_filter": ">"}):
        counts |= page["state"].get("subjects") or {}
        pages += 1
        if pages >= MOST_PAGES:
            break
    largest = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:MOST_SHOWN]
    return JSONResponse({"total": len(counts), "subjects": largest})
