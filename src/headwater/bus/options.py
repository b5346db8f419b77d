"""How to reach a nats-server, and with which credentials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from headwater.errors import BusError
from headwater.settings import Settings

CLIENT_PORT = 4222
LEAF_PORT = 7422
_SCHEMES = ("nats", "tls", "nats-leaf")


@dataclass(frozen=True)
class Address:
    """One server of a URL, with the credentials and the TLS scheme of the URL."""

    host: str
    port: int
    tls: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    # A discovered server is announced by its IP; its certificate has the host name that we were given.
    tls_name: str = ""

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, url: str, default_port: int = CLIENT_PORT) -> Address:
        """Read `nats://[user:password@]host[:port]`, `tls://…` or a bare `host[:port]`."""
        parts = urlsplit(url if "://" in url else f"nats://{url}")
        try:
            port = parts.port or default_port
        except ValueError:
            port = 0
        if parts.scheme not in _SCHEMES or not parts.hostname or not port:
            raise BusError(f"{url!r} is not the address of a nats-server.", "nats://127.0.0.1:4222")
        user, password = unquote(parts.username or ""), unquote(parts.password or "")
        return cls(parts.hostname, port, parts.scheme == "tls", user, password, parts.hostname)


@dataclass(frozen=True)
class ConnectOptions:
    """The servers of one connection, its credentials and its limits."""

    # An address may contain a password.
    servers: tuple[str, ...] = field(default=("nats://127.0.0.1:4222",), repr=False)
    name: str = "headwater"
    inbox_prefix: str = "_INBOX"
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: str = ""
    token: str = field(default="", repr=False)
    nkey_file: str = ""
    creds_file: str = ""
    tls: bool = False
    tls_first: bool = False
    tls_ca: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_hostname: str = ""
    connect_timeout_s: float = 5.0
    ping_interval_s: float = 20.0
    max_pings_outstanding: int = 2
    reconnect_wait_s: float = 0.05
    reconnect_wait_max_s: float = 5.0
    max_pending_bytes: int = 64 << 20
    may_send: Callable[[], bool] | None = field(default=None, repr=False, compare=False)
    """Whether anything may be sent now: an engine that may have lost its store must stay silent."""
    patience_s: float = 0.0
    """How long the first connection is tried; a server that was just started may not listen yet."""

    def __post_init__(self) -> None:
        if not self.servers:
            raise BusError("No server to connect to.", "nats://127.0.0.1:4222")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise BusError("A TLS client certificate needs its key and the key its certificate.")

    @classmethod
    def of(cls, settings: Settings, url: str, name: str) -> ConnectOptions:
        """Return the options for these addresses from the settings."""
        return cls(
            servers=tuple(url.split(",")),
            name=name,
            user=settings.user or "",
            password=settings.password or "",
            password_file=str(settings.password_file or ""),
            token=settings.token or "",
            nkey_file=str(settings.nkey or ""),
            creds_file=str(settings.creds or ""),
            tls_ca=str(settings.tls_ca or ""),
            tls_cert=str(settings.tls_cert or ""),
            tls_key=str(settings.tls_key or ""),
            tls_first=settings.tls_first,
        )

    @property
    def wants_tls(self) -> bool:
        """Return whether a server that offers no TLS must not be used."""
        return self.tls or self.tls_first or bool(self.tls_ca or self.tls_cert)
