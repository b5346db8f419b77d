"""The data files of a stream's table, a page at a time, as the engine lists them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from headwater.console.application import console_of
from headwater.console.monitored_pages import asked_page
from headwater.console.payload import visible_text

PER_PAGE = 25
MOST_FILES = 10_000_000
_SIZES = ("version", "through", "last_seq", "files", "bytes", "unfolded", "log_bytes")
_NUMBERS = ("first_seq", "last_seq", "messages", "removed", "bytes", "first_ts", "last_ts")


async def table_files(request: Request) -> Response:
    """Answer some files of a table from an offset on, the newest first."""
    site = console_of(request).sampler.site(request.path_params["site"])
    stream, offset = request.path_params["stream"], _offset(request.query_params.get("offset", ""))
    created = (site.snapshot.streams.get(stream) or {}).get("created") or ""
    asked = urlencode({"stream": stream, "created": created, "offset": offset, "limit": PER_PAGE})
    answer = await asked_page(site, f"/table?{asked}", "listed", "the files of tables")
    listed = [_file(each) for each in answer["listed"][:PER_PAGE] if isinstance(each, dict)]
    sizes = {name: _whole(answer.get(name)) for name in _SIZES}
    return JSONResponse({**sizes, "offset": offset, "per_page": PER_PAGE, "listed": listed})


def _file(given: dict[str, Any]) -> dict[str, Any]:
    names = {name: visible_text(str(given.get(name, ""))) for name in ("path", "kind")}
    return {**names, **{name: _whole(given.get(name)) for name in _NUMBERS}}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _offset(text: str) -> int:
    if not text:
        return 0
    if not text.isascii() or not text.isdigit() or int(text[:12]) > MOST_FILES:
        raise HTTPException(400, "offset must be a number")
    return int(text)


ROUTES = (Route("/files/{site}/{stream}", table_files),)
