"""The handshake with a nats-server: whether it greets, whether to use TLS, and the CONNECT of a client."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from headwater.bus.credentials import connect_fields
from headwater.bus.options import Address, ConnectOptions
from headwater.errors import BusError
from headwater.version import VERSION
from headwater.wire import frames

Info = dict[str, Any]
GREETING_S = 5.0
"""How long a server may take to send INFO to a probe."""


def needs_tls(info: Info, options: ConnectOptions, address: Address) -> bool:
    """Return whether to encrypt after this INFO; raise if we require what the server does not offer."""
    if info.get("tls_required"):
        return True
    if not (options.wants_tls or address.tls):
        return False
    if not info.get("tls_available"):
        raise BusError(f"The server at {address} offers no TLS.", "tls { cert_file: …, key_file: … }")
    return True


def tls_name(options: ConnectOptions, address: Address) -> str:
    """Return the name that the server's certificate must have."""
    return options.tls_hostname or address.tls_name or address.host


def client_hello(info: Info, options: ConnectOptions, address: Address) -> bytes:
    """Return the CONNECT and PING of a client, with our credentials."""
    fields = {
        "verbose": False,
        "pedantic": False,
        "lang": "python",
        "version": VERSION,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
        "echo": True,
        "name": options.name,
        **connect_fields(options, address, str(info.get("nonce", ""))),
    }
    return frames.connect(json.dumps(fields).encode())


async def greets(host: str, port: int) -> bool:
    """Return whether a nats-server sends INFO on a port."""
    try:
        reader, writer = await asyncio.open_connection(host, port)
    except OSError:
        return False
    try:
        async with asyncio.timeout(GREETING_S):
            return (await reader.read(4)).startswith(b"INFO")
    except (OSError, TimeoutError):
        return False
    finally:
        writer.close()
