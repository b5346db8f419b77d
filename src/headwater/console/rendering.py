"""Templates of the console: every value is escaped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse

from headwater.console.access import COOKIE
from headwater.version import VERSION

STATIC = Path(__file__).parent / "static"


@dataclass(frozen=True)
class MenuEntry:
    """A link in the navigation."""

    path: str
    title: str
    order: int


@cache
def environment() -> Environment:
    """Return the environment of all templates; autoescape is on for every file name."""
    made = Environment(
        loader=PackageLoader("headwater.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["segment"] = segment
    return made


def segment(text: str) -> str:
    """Return text as one segment of a path."""
    return quote(text, safe="")


@cache
def _script_of(template: str) -> str:
    """Return the script of the same name as a template; empty if there is none."""
    script = template.removesuffix(".html") + ".js"
    return script if (STATIC / script).is_file() else ""


def render(request: Request, template: str, status: int = 200, **values: Any) -> HTMLResponse:
    """Return a page: the template with the values, inside the frame that all pages have."""
    console = request.app.state.console
    framed: Mapping[str, Any] = {
        "menu": console.menu,
        "path": request.url.path,
        "version": VERSION,
        "allow_changes": console.allow_changes,
        "session": console.access.session(request.cookies.get(COOKIE, "")),
        "script": _script_of(template),
        "query": dict(request.query_params),
        **values,
    }
    return HTMLResponse(environment().get_template(template).render(framed), status)
