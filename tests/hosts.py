"""Hosts of one machine: network namespaces, each with a link to a center that can be pulled like a cable.

The center and each host have a network of their own. On a host, the loopback address is that of the center:
what listens there is reached over the link, and nothing else is. A link that is down drops packets silently.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CLONE_NEWNET = 0x40000000
_NETWORKS = Path("/run/netns")


def missing() -> str | None:
    """Return why there can be no such hosts here, if there can not."""
    if shutil.which("ip") is None:
        return "ip is not on PATH (Debian: iproute2)"
    name = f"hw-try-{os.getpid()}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if tried.returncode:
        return f"network namespaces cannot be created: {tried.stderr.strip()}"
    subprocess.run(["ip", "netns", "del", name], check=True)
    return None


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def _set(network: str, name: str, value: str) -> None:
    setting = f"/proc/sys/net/ipv4/conf/all/{name}"
    _ip("netns", "exec", network, "sh", "-c", f"echo {value} > {setting}")


class Host:
    """One host, with a link to the center."""

    def __init__(self, center: str, number: int) -> None:
        self._center = center
        self._name = f"{center}-{number}"
        self._link, inner = f"hw{os.getpid()}c{number}", f"hw{os.getpid()}h{number}"
        address = f"127.9.{number // 250}.{number % 250 + 1}/32"
        _ip("netns", "add", self._name)
        _ip("link", "add", self._link, "netns", center, "type", "veth", "peer", inner, "netns", self._name)
        _set(self._name, "route_localnet", "1")
        _ip("-n", self._name, "link", "set", inner, "up")
        _ip("-n", self._name, "addr", "add", address, "dev", inner)
        _ip("-n", self._name, "route", "add", "127.0.0.1/32", "dev", inner)
        self._route = ("-n", center, "route", "replace", address, "dev", self._link, "src", "127.0.0.1")
        self.connect()

    @property
    def prefix(self) -> tuple[str, ...]:
        """Return what precedes a command that runs on this host."""
        return ("ip", "netns", "exec", self._name)

    def connect(self) -> None:
        """Plug in its link."""
        _ip("-n", self._center, "link", "set", self._link, "up")
        _ip(*self._route)

    def disconnect(self) -> None:
        """Pull its link: nothing arrives any more in either direction, and nobody is notified."""
        _ip("-n", self._center, "link", "set", self._link, "down")

    def remove(self) -> None:
        """Remove the host; its processes must have ended."""
        subprocess.run(["ip", "netns", "del", self._name], check=False, capture_output=True)


class Center:
    """The network in which the test and its servers run."""

    def __init__(self) -> None:
        self._name = f"hw-{os.getpid()}"
        self._hosts: list[Host] = []
        _ip("netns", "add", self._name)
        _set(self._name, "route_localnet", "1")
        _ip("-n", self._name, "link", "set", "lo", "up")
        # Only one address of the loopback network is the center's own; others are its hosts'.
        _ip("-n", self._name, "route", "del", "local", "127.0.0.0/8", "dev", "lo", "table", "local")

    def add(self) -> Host:
        """Return a new host."""
        self._hosts.append(Host(self._name, len(self._hosts)))
        return self._hosts[-1]

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have this thread, and what it starts, use the center's network."""
        with open("/proc/thread-self/ns/net") as before, (_NETWORKS / self._name).open() as ours:
            _enter(ours.fileno())
            try:
                yield
            finally:
                _enter(before.fileno())

    def remove(self) -> None:
        """Remove all networks."""
        for host in self._hosts:
            host.remove()
        subprocess.run(["ip", "netns", "del", self._name], check=False, capture_output=True)


def _enter(network: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(network, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


@contextmanager
def center() -> Iterator[Center]:
    """Enter a network of our own for the length of a block."""
    found = Center()
    try:
        with found.entered():
            yield found
    finally:
        found.remove()
