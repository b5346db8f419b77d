"""Failed logins of the last minutes: who failed too often must wait before the next attempt."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network

WINDOW_S = 300.0
MOST_OF_ADDRESS = 10
MOST_OF_NAME = 30
"""More than of one address: others who guess at a name must not lock its user out quickly."""
MOST_KEYS = 10_000
_NETWORK_BITS = 64
"""One client has all IPv6 addresses of such a network."""


class LoginAttempts:
    """Counts failures by address and by name, in bounded memory."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        """Returns the time by a monotonic clock; tests pass their own."""
        self._failures: dict[tuple[str, str], deque[float]] = {}
        """The times of failures by kind and value, the key that failed last at the end."""

    def wait_s(self, address: str, name: str = "") -> float:
        """Return how long no attempt is accepted; 0 if one is now."""
        return max(self._wait_s(key, most) for key, most in _keys(address, name))

    def failed(self, address: str, name: str = "") -> None:
        """Record a failed attempt."""
        for key, most in _keys(address, name):
            times = self._failures.pop(key, None) or deque(maxlen=most)
            times.append(self._now_s())
            self._failures[key] = times
        while len(self._failures) > MOST_KEYS:
            del self._failures[next(iter(self._failures))]

    def succeeded(self, address: str, name: str = "") -> None:
        """Forget the failures of someone who logged in."""
        for key, _ in _keys(address, name):
            self._failures.pop(key, None)

    def _wait_s(self, key: tuple[str, str], most: int) -> float:
        times = self._failures.get(key) or deque()
        if len(times) < most:
            return 0.0
        return max(times[0] + WINDOW_S - self._now_s(), 0.0)


def _keys(address: str, name: str) -> list[tuple[tuple[str, str], int]]:
    found = [(("address", client_of(address)), MOST_OF_ADDRESS)]
    return [*found, (("name", name), MOST_OF_NAME)] if name else found


def client_of(address: str) -> str:
    """Return what stands for one client: its address, or its network for IPv6."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return address[:100]
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        return str(ip_network((found, _NETWORK_BITS), strict=False))
    return str(found)
