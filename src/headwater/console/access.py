"""Who may read the console: Host and Origin checks, a login where one is needed, and strict headers."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "headwater_console"
LOGIN_PATH = "/login"
OPEN_PATHS = ("/static/", LOGIN_PATH)
"""What is served without a login."""
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    # Not no-referrer: browsers would then send forms of the console's own pages with the origin null.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
SAFE_METHODS = ("GET", "HEAD")
MOST_SESSIONS = 1000


@dataclass
class Access:
    """The rules of one console."""

    token: str = ""
    """What a browser must present at the login; empty for no login, which only loopback may have."""
    host_names: Sequence[str] = ()
    """Names that the Host header may have, in addition to localhost and IP addresses."""
    is_secure: bool = False
    """Whether the console is served over TLS, so that cookies must be."""
    _sessions: dict[str, None] = field(default_factory=dict)
    """The values of cookies that were handed out, oldest first."""

    def admits_host(self, host: str) -> bool:
        """Return whether a Host header names this console, and not a site that resolves to it."""
        try:
            name = urlsplit(f"//{host}").hostname or ""
            if name == "localhost" or name in self.host_names:
                return True
            ip_address(name)
        except ValueError:
            return False
        return True

    def admits_origin(self, headers: Headers, *, changes: bool) -> bool:
        """Return whether a request comes from the console's own pages, or is a plain visit."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and urlsplit(origin).netloc != headers.get("host"):
            return False
        if site in ("cross-site", "same-site"):
            # A link from another page may open a page, but may neither change anything nor read data.
            return not changes and headers.get("sec-fetch-mode") == "navigate"
        return not changes or origin is not None or site == "same-origin"

    def logs_in(self, token: str) -> bool:
        """Return whether a token is the right one."""
        return bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())

    def open_session(self) -> str:
        """Return the value of a new cookie."""
        value = secrets.token_urlsafe(32)
        self._sessions[value] = None
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return value

    def close_session(self, value: str) -> None:
        """Make a cookie invalid."""
        self._sessions.pop(value, None)

    def knows(self, connection: HTTPConnection) -> bool:
        """Return whether a request needs no login, or is from a browser that has logged in."""
        if not self.token:
            return True
        if connection.cookies.get(COOKIE, "") in self._sessions:
            return True
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        return kind.lower() == "bearer" and self.logs_in(token)


class AccessMiddleware:
    """Applies the rules to every request, before anything else."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request that the rules refuse; pass on the others, with strict headers on the answer."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        refusal = self._refusal(HTTPConnection(scope))
        await (refusal or self._app)(scope, receive, send_with_headers)

    def _refusal(self, request: HTTPConnection) -> Response | None:
        method, path = request.scope["method"], request.url.path
        if not self._access.admits_host(request.headers.get("host", "")):
            return PlainTextResponse("this console does not have that name: see --host-name\n", 421)
        if not self._access.admits_origin(request.headers, changes=method not in SAFE_METHODS):
            return PlainTextResponse("this request comes from another web site\n", 403)
        if not path.startswith(OPEN_PATHS) and not self._access.knows(request):
            if path.startswith(("/live/", "/api/")) or method not in SAFE_METHODS:
                return PlainTextResponse("log in first\n", 401)
            return RedirectResponse(LOGIN_PATH, 303)
        return None
