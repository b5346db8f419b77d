"""Loopback ports for servers that we start."""

from __future__ import annotations

import secrets
import socket
from collections import deque
from contextlib import suppress
from pathlib import Path

HOST = "127.0.0.1"

_TRIES = 200
_FIRST = 10_000
_USUAL_EPHEMERAL = 32_768
_KEPT = 256

# A port stays reserved until this process ends or has taken this many others.
_reservations: deque[socket.socket] = deque()


def free_port() -> int:
    """Return a free loopback port outside of the kernel's ephemeral range, reserved for this process.

    An ephemeral port may be taken before a server listens on it, or while it restarts: even a client that
    reconnects to it may get it as its own. Two processes that ask at the same time get different ports.
    """
    room = _ephemeral_from() - _FIRST
    for _ in range(_TRIES):
        port = _FIRST + secrets.randbelow(room)
        if reserve(port):
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def reserve(port: int) -> bool:
    """Reserve a port; return False if a server uses it or another process has reserved it."""
    # The name of an abstract socket belongs to one process and is free again when that ends, however it ends.
    claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        claim.bind(f"\0headwater.port.{port}")
        with socket.socket() as probe:
            probe.bind((HOST, port))
    except OSError:
        claim.close()
        return False
    if len(_reservations) == _KEPT:
        _reservations.popleft().close()
    _reservations.append(claim)
    return True


def _ephemeral_from() -> int:
    """Return the first ephemeral port of the kernel, if there is enough room below it."""
    first = _USUAL_EPHEMERAL
    with suppress(OSError, ValueError, IndexError):
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return max(first, _FIRST + _TRIES)
