"""Runs the console: checks where it may listen, and serves until a signal stops it."""

from __future__ import annotations

import secrets
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

import uvicorn

from headwater.console.access import Access
from headwater.console.application import Console, application
from headwater.console.console_pages import PAGES, ROUTES, menu_of
from headwater.console.console_users import read_users
from headwater.console.query_runner import QueryRunner
from headwater.console.sampler import INTERVAL_S, Sampler
from headwater.console.watched_site import WatchedSite
from headwater.errors import SettingsError

STOP_S = 2
"""How long open streams of events may delay the end."""


@dataclass(frozen=True)
class ConsoleSettings:
    """Where the console listens, and who may read it."""

    host: str = "127.0.0.1"
    port: int = 8280
    token: str = ""
    users_file: Path | None = None
    """The file with the users who may log in with a password; None for no users."""
    host_names: Sequence[str] = ()
    tls_cert: Path | None = None
    tls_key: Path | None = None
    plain_http: bool = False
    """Whether a proxy in front of the console does TLS, so that the console need not."""
    allow_changes: bool = False
    store: str = ""
    """The store, or the address in a bucket, whose tables can be queried; empty for none."""
    store_account: str = ""
    """The account whose tables these are; empty for the store's only one, else the global account."""
    interval_s: float = INTERVAL_S

    @property
    def is_loopback(self) -> bool:
        """Return whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False


def checked(settings: ConsoleSettings) -> ConsoleSettings:
    """Return the settings, with a token if there is no other login; refuse those without one."""
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingsError("--http-cert and --http-key belong together: pass both or none")
    if settings.is_loopback:
        return settings
    if not settings.tls_cert and not settings.plain_http:
        raise SettingsError(
            f"the console would send its login in the clear on {settings.host}: pass --http-cert and "
            "--http-key, or --plain-http if a proxy in front of it does TLS"
        )
    if settings.token or settings.users_file is not None:
        return settings
    return ConsoleSettings(**{**settings.__dict__, "token": secrets.token_urlsafe(24)})


def bound_socket(settings: ConsoleSettings) -> socket.socket:
    """Return a socket that listens, so that a port in use is an error with a remedy."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((settings.host, settings.port))
        listener.listen(128)
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise SettingsError(
            f"cannot listen on {settings.host}:{settings.port}: {reason}; pass --port"
        ) from None
    return listener


def address_of(settings: ConsoleSettings, listener: socket.socket) -> str:
    """Return the address that a person opens."""
    scheme = "https" if settings.tls_cert else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}"


def server(sites: Sequence[WatchedSite], settings: ConsoleSettings) -> uvicorn.Server:
    """Return the server of a console that watches these sites."""
    users = read_users(settings.users_file) if settings.users_file is not None else None
    access = Access(settings.token, users, tuple(settings.host_names), bool(settings.tls_cert))
    console = Console(
        Sampler(sites, settings.interval_s),
        access,
        allow_changes=settings.allow_changes,
        query=QueryRunner(settings.store, settings.store_account) if settings.store else None,
    )
    config = uvicorn.Config(
        application(console, PAGES, ROUTES, menu_of(allow_changes=settings.allow_changes)),
        log_config=None,
        access_log=False,
        server_header=False,
        # Only a proxy may say where a request comes from: failed logins are counted by address.
        proxy_headers=settings.plain_http,
        timeout_graceful_shutdown=STOP_S,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        lifespan="on",
        h11_max_incomplete_event_size=64 * 1024,
        limit_concurrency=500,
    )
    return uvicorn.Server(config)
