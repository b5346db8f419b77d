"""Who may read the console: Host and Origin checks, a login where one is needed, and strict headers."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import math
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headwater.console.console_users import MOST_NAME, ConsoleUsers
from headwater.console.login_attempts import LoginAttempts

logger = logging.getLogger(__name__)

COOKIE = "headwater_console"
LOGIN_PATH = "/login"
JSON_PATHS = ("/api/", "/live/", "/subjects/", "/files/", "/activity/")
"""What scripts ask for, which understand no page."""
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
SESSION_S = 12 * 3600.0
"""How long a login is valid."""
CHECKS_AT_ONCE = 2
"""How many passwords are checked at the same time: each takes memory and CPU time."""
MOST_WAITING = 20
"""More attempts than this are refused at once, so that a flood of them does not become a long queue."""


class LoginDeniedError(Exception):
    """A login that is not accepted; `wait_s` says when the next attempt may be."""

    def __init__(self, message: str, wait_s: float = 0.0) -> None:
        super().__init__(message)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class LoginSession:
    """A browser that has logged in."""

    user: str
    """The name of the user; empty for the token."""
    opened_s: float
    """When, by the monotonic clock."""


@dataclass
class Access:
    """The rules of one console."""

    token: str = ""
    """What a browser must present at the login; without it and without users there is no login."""
    users: ConsoleUsers | None = None
    """Who may log in with a password."""
    host_names: Sequence[str] = ()
    """Names that the Host header may have, in addition to localhost and IP addresses."""
    is_secure: bool = False
    """Whether the console is served over TLS, so that cookies must be."""
    attempts: LoginAttempts = field(default_factory=LoginAttempts)
    _sessions: dict[bytes, LoginSession] = field(default_factory=dict)
    """By the hash of a cookie that was handed out, oldest first: a lookup shows nothing of the cookie."""
    _checks: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(CHECKS_AT_ONCE))
    _waiting: int = 0
    """Attempts that wait for their check."""

    @property
    def has_login(self) -> bool:
        """Return whether a browser must log in."""
        return bool(self.token) or self.users is not None

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
        if origin is not None and not self._is_own(origin, headers.get("host", "")):
            return False
        if site in ("cross-site", "same-site"):
            # A link from another page may open a page, but may neither change anything nor read data.
            return not changes and headers.get("sec-fetch-mode") == "navigate"
        return not changes or origin is not None or site == "same-origin"

    def _is_own(self, origin: str, host: str) -> bool:
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        # Another server on the same machine may serve plain HTTP, which anyone on the way can change.
        return parts.netloc == host and (not self.is_secure or parts.scheme == "https")

    def logs_in(self, token: str) -> bool:
        """Return whether a token is the right one."""
        return bool(self.token) and hmac.compare_digest(token.encode(), self.token.encode())

    async def log_in(self, address: str, *, token: str = "", user: str = "", password: str = "") -> str:
        """Return the value of a cookie for the right token or password, else raise LoginDeniedError."""
        user = user[: MOST_NAME + 1]
        if self._waiting >= MOST_WAITING:
            raise LoginDeniedError("Many logins wait at the moment: try again in some seconds.", 5.0)
        self._waiting += 1
        try:
            async with self._checks:
                self._require_patience(address, user)
                if await self._admits(token, user, password):
                    self.attempts.succeeded(address, user)
                    logger.info("logged in", extra={"user": user, "address": address})
                    return self.open_session(user)
                self.attempts.failed(address, user)
        finally:
            self._waiting -= 1
        logger.warning("a login failed", extra={"user": user, "address": address})
        raise LoginDeniedError("This is not the password." if user else "This is not the token.")

    def _require_patience(self, address: str, user: str = "") -> None:
        if wait_s := self.attempts.wait_s(address, user):
            raise LoginDeniedError(
                f"Too many logins have failed: try again in {wait_s / 60:.0f} minutes."
                if wait_s > 90
                else f"Too many logins have failed: try again in {max(wait_s, 1):.0f} seconds.",
                wait_s,
            )

    async def _admits(self, token: str, user: str, password: str) -> bool:
        if user and self.users is not None:
            return await asyncio.to_thread(self.users.admits, user, password)
        return not user and self.logs_in(token)

    def open_session(self, user: str = "") -> str:
        """Return the value of a new cookie."""
        value = secrets.token_urlsafe(32)
        self._sessions[_key_of(value)] = LoginSession(user, time.monotonic())
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return value

    def close_session(self, value: str) -> None:
        """Make a cookie invalid."""
        self._sessions.pop(_key_of(value), None)

    def session(self, value: str) -> LoginSession | None:
        """Return the login of a cookie; None if there is none, or it is too old."""
        found = self._sessions.get(_key_of(value))
        if found is not None and time.monotonic() - found.opened_s > SESSION_S:
            self.close_session(value)
            return None
        return found

    def knows(self, connection: HTTPConnection) -> bool:
        """Return whether a request needs no login, or is from a browser that has logged in."""
        if not self.has_login or self.session(connection.cookies.get(COOKIE, "")) is not None:
            return True
        kind, _, token = connection.headers.get("authorization", "").partition(" ")
        if kind.lower() != "bearer":
            return False
        address = address_of(connection)
        self._require_patience(address)
        if self.logs_in(token):
            return True
        self.attempts.failed(address)
        return False


def address_of(connection: HTTPConnection) -> str:
    """Return the address of the client; empty if the server does not know it."""
    return connection.client.host if connection.client is not None else ""


def _key_of(cookie: str) -> bytes:
    return hashlib.sha256(cookie.encode("utf-8", "surrogatepass")).digest()


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
        try:
            is_known = path.startswith(OPEN_PATHS) or self._access.knows(request)
        except LoginDeniedError as refusal:
            return PlainTextResponse(f"{refusal}\n", 429, retry_after(refusal))
        if not is_known:
            if path.startswith(JSON_PATHS) or method not in SAFE_METHODS:
                return PlainTextResponse("log in first\n", 401)
            return RedirectResponse(LOGIN_PATH, 303)
        return None


def retry_after(refusal: LoginDeniedError) -> dict[str, str]:
    """Return the header that says when to try again; none if that is now."""
    return {"Retry-After": str(math.ceil(refusal.wait_s))} if refusal.wait_s else {}
