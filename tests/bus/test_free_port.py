"""Ports are free, outside of the ephemeral range, and reserved for one process."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from headwater.bus.free_port import HOST, free_port, reserve

RESERVE = "import sys; from headwater.bus.free_port import reserve; print(reserve(int(sys.argv[1])))"


def _reserve_in_another_process(port: int) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", RESERVE, str(port)], stdout=subprocess.PIPE, text=True, check=True
    )
    return ran.stdout.strip()


def test_free_ports_differ_and_are_none_that_connections_are_given() -> None:
    found = [free_port() for _ in range(200)]
    assert len(set(found)) == 200
    ranges = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(ranges.read_text().split()[0]) if ranges.exists() else 0
    if first > 20_000:
        assert max(found) < first


def test_a_port_is_reserved_for_the_process_that_asked_until_it_ends() -> None:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    assert _reserve_in_another_process(port) == "True"
    assert reserve(port)
    assert not reserve(port)
    assert _reserve_in_another_process(port) == "False"


def test_a_port_with_a_listener_is_not_free() -> None:
    with socket.create_server((HOST, 0)) as server:
        assert not reserve(server.getsockname()[1])
