"""The console as a web application: routes, menu, live updates, login."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles

from headwater.client.jetstream_api import JetStreamApi
from headwater.console.access import (
    COOKIE,
    JSON_PATHS,
    LOGIN_PATH,
    Access,
    AccessMiddleware,
    LoginDeniedError,
    address_of,
    retry_after,
)
from headwater.console.console_page import ConsolePage
from headwater.console.forms import form_fields
from headwater.console.live_views import LiveView, LiveViews
from headwater.console.query_runner import QueryRunner
from headwater.console.rendering import STATIC, MenuEntry, render
from headwater.console.sampler import Sampler
from headwater.errors import Error

HEARTBEAT_S = 15.0
"""How often a stream of events says that it is alive, so that proxies keep it open."""
MOST_LISTENERS = 200


class Console:
    """What all pages share; handlers find it as `request.app.state.console`."""

    def __init__(
        self,
        sampler: Sampler,
        access: Access,
        *,
        allow_changes: bool = False,
        query: QueryRunner | None = None,
    ) -> None:
        self.sampler = sampler
        self.views = LiveViews()
        self.access = access
        self.allow_changes = allow_changes
        """Whether pages may change anything at the sites."""
        self.query = query
        """Runs SQL over the tables of a store; None if the console can read no store."""
        self.menu: list[MenuEntry] = []

    async def api(self, site: str) -> JetStreamApi:
        """Return the connected JetStream API of a site."""
        return await self.sampler.site(site).connection.api()


def console_of(request: Request) -> Console:
    """Return the console that answers a request."""
    console: Console = request.app.state.console
    return console


def application(
    console: Console,
    pages: Sequence[ConsolePage],
    routes: Sequence[Route] = (),
    menu: Sequence[MenuEntry] = (),
) -> Starlette:
    """Return the application: live pages, and routes whose handlers do everything themselves."""
    entries = [MenuEntry(page.path, page.title, page.menu_order) for page in pages if page.in_menu]
    console.menu = sorted([*entries, *menu], key=lambda entry: entry.order)
    all_routes: list[BaseRoute] = [route for page in pages for route in _routes(page)]
    all_routes += [
        *routes,
        Route(LOGIN_PATH, _login, methods=["GET", "POST"]),
        Route("/logout", _logout, methods=["POST"]),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with console.sampler.running():
            yield

    app = Starlette(
        routes=all_routes,
        middleware=[Middleware(AccessMiddleware, access=console.access)],
        exception_handlers={Error: _show_error, HTTPException: _show_error},
        lifespan=lifespan,
    )
    app.state.console = console
    return app


def _routes(page: ConsolePage) -> list[Route]:
    def view(request: Request) -> LiveView:
        # What is in the path comes last: the query cannot replace it.
        path = {name: str(value) for name, value in request.path_params.items()}
        given = {**request.query_params, **path}
        console = console_of(request)
        console.sampler.want()
        address = f"{page.path} {sorted(given.items())}"
        return console.views.of(address, console.sampler.version, lambda: page.view(console.sampler, given))

    async def show(request: Request) -> Response:
        shown = view(request).view
        title = str(shown.get("title") or page.title)
        return render(request, page.template, title=title, view=shown, live=f"/live{_target(request)}")

    async def api(request: Request) -> Response:
        return JSONResponse(view(request).view)

    async def live(request: Request) -> Response:
        console = console_of(request)
        if console.sampler.listeners >= MOST_LISTENERS:
            raise HTTPException(503, "too many browsers are connected: close some")
        view(request)  # an unknown stream is an error of the request, not of its events
        events = _events(console.sampler, lambda: view(request))
        return StreamingResponse(events, media_type="text/event-stream")

    tail = "" if page.path == "/" else page.path
    return [
        Route(page.path, show),
        Route(f"/api{tail or '/map'}", api),
        Route(f"/live{tail or '/map'}", live),
    ]


def _target(request: Request) -> str:
    """Return the path and the query of a request as they were sent, the root as the map."""
    raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
    path = raw.decode("latin-1")
    query = request.url.query
    return ("/map" if path == "/" else path) + (f"?{query}" if query else "")


async def _events(sampler: Sampler, view: Callable[[], LiveView]) -> AsyncIterator[bytes]:
    """Yield the whole view once, and then what changed in it, as server-sent events."""
    before: LiveView | None = None
    changes = sampler.changes()
    waiting: asyncio.Future[int] | None = None
    try:
        while True:
            waiting = waiting or asyncio.ensure_future(anext(changes))
            done, _ = await asyncio.wait([waiting], timeout=HEARTBEAT_S)
            if not done:
                yield b": still here\n\n"
                continue
            waiting = None
            try:
                after = view()
            except Error:
                yield b"event: gone\ndata: {}\n\n"
                return
            if before is None:
                yield after.whole()
            elif patch := after.after(before):
                yield patch
            before = after
    finally:
        if waiting is not None:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        await changes.aclose()  # type: ignore[attr-defined]


async def _login(request: Request) -> Response:
    access = console_of(request).access
    if request.method != "POST":
        return _login_page(request)
    fields = await form_fields(request)
    given = {name: fields.get(name, "") for name in ("token", "user", "password")}
    try:
        session = await access.log_in(address_of(request), **given)
    except LoginDeniedError as refusal:
        answer = _login_page(request, 429 if refusal.wait_s else 403, str(refusal))
        answer.headers.update(retry_after(refusal))
        return answer
    # Behind a proxy that does TLS, the browser says so itself.
    is_secure = access.is_secure or request.headers.get("origin", "").startswith("https://")
    redirect = RedirectResponse("/", 303)
    redirect.set_cookie(COOKIE, session, httponly=True, samesite="strict", secure=is_secure, path="/")
    return redirect


def _login_page(request: Request, status: int = 200, message: str = "") -> Response:
    access = console_of(request).access
    return render(
        request,
        "login.html",
        status,
        title="Log in",
        message=message,
        has_users=access.users is not None,
        has_token=bool(access.token),
    )


async def _logout(request: Request) -> Response:
    console_of(request).access.close_session(request.cookies.get(COOKIE, ""))
    answer = RedirectResponse(LOGIN_PATH, 303)
    answer.delete_cookie(COOKIE)
    return answer


async def _show_error(request: Request, error: Exception) -> Response:
    """Answer with the error's sentence, as a page for people and as JSON for scripts."""
    status = error.status_code if isinstance(error, HTTPException) else 404
    message = str(error.detail if isinstance(error, HTTPException) else error)
    if request.url.path.startswith(JSON_PATHS):
        return JSONResponse({"error": message}, status)
    return render(request, "error.html", status, title="Error", message=message)
