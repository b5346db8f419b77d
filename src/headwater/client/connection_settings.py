"""Where a client connects and with which credentials."""

from __future__ import annotations

import os
import re
import ssl
from dataclasses import dataclass
from typing import Any

from headwater import tls
from headwater.errors import SettingsError

DEFAULT_SERVER = "nats://127.0.0.1:4222"
SCHEMES = ("nats", "tls", "ws", "wss")
LEAST_CONNECT_S = 5.0
DEFAULT_PREFIX = "$JS.API"
_CREDENTIALS = """-----BEGIN NATS USER JWT-----
{jwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
{seed}
------END USER NKEY SEED------
"""


@dataclass(frozen=True)
class ConnectionSettings:
    """Everything that a connection needs; empty text means that a value is not set."""

    server: str = DEFAULT_SERVER
    """One address, or several separated by commas. They are tried in this order."""
    user: str = ""
    password: str = ""
    token: str = ""
    creds: str = ""
    """A file with a user's JWT and its seed."""
    nkey: str = ""
    """A file with the seed of an nkey."""
    jwt: str = ""
    seed: str = ""
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""
    tls_first: bool = False
    timeout: float = 5.0
    """Seconds to wait for each answer."""
    domain: str = ""
    api_prefix: str = ""
    inbox_prefix: str = ""

    def __repr__(self) -> str:
        return f"ConnectionSettings(server={self.address!r}, prefix={self.prefix!r})"

    @property
    def prefix(self) -> str:
        """Return the prefix of the API: the one given, else that of the domain, else the default."""
        if self.api_prefix:
            return self.api_prefix.rstrip(".")
        return f"$JS.{self.domain}.API" if self.domain else DEFAULT_PREFIX

    @property
    def address(self) -> str:
        """Return the servers without their passwords."""
        return ",".join(re.sub(r"//[^@/]*@", "//", url) for url in self.server.split(","))

    def options(self) -> dict[str, Any]:
        """Return the keywords with which the NATS client connects."""
        options: dict[str, Any] = {
            "servers": [_with_scheme(url.strip()) for url in self.server.split(",") if url.strip()],
            # A short timeout is meant for answers. A remote or busy server may need longer to connect.
            "connect_timeout": max(self.timeout, LEAST_CONNECT_S),
            **self._credentials(),
        }
        if self.inbox_prefix:
            options["inbox_prefix"] = self.inbox_prefix
        if self.tls_cert or self.tls_ca or self.tls_first:
            options |= {"tls": self._tls(), "tls_handshake_first": self.tls_first}
        return options

    def _credentials(self) -> dict[str, Any]:
        """Return the most specific credentials that are set."""
        if self.creds:
            return {"user_credentials": _existing(self.creds, "creds")}
        if self.jwt and self.seed:
            # Engines and commands that connect to nothing start without nats.py.
            from nats.aio.client import RawCredentials

            return {"user_credentials": RawCredentials(_CREDENTIALS.format(jwt=self.jwt, seed=self.seed))}
        if self.nkey:
            return {"nkeys_seed": _existing(self.nkey, "nkey")}
        if self.token:
            return {"token": self.token}
        if self.user and not self.password:
            return {"token": self.user}
        return {"user": self.user, "password": self.password} if self.user else {}

    def _tls(self) -> ssl.SSLContext:
        try:
            return tls.client_context(self.tls_ca, self.tls_cert, self.tls_key)
        except OSError as error:
            raise SettingsError(f"cannot load the TLS files: {error}") from None


def _existing(path: str, name: str) -> str:
    if not os.path.isfile(path):
        raise SettingsError(f"{name}: the file {path} does not exist")
    return path


def _with_scheme(url: str) -> str:
    scheme, found, _ = url.partition("://")
    if found and scheme.lower() not in SCHEMES:
        known = ", ".join(f"{each}://" for each in SCHEMES)
        raise SettingsError(f"server {url} is invalid: the scheme must be one of {known}")
    return url if found else f"nats://{url}"
