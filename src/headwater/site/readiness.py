"""Checks that a machine can run sites, before anything is started."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterator, Mapping

from headwater.bus.embedded import find_server
from headwater.errors import Error
from headwater.site.topology import LOOPBACK, Site, Topology


class NotReadyError(Error):
    """A requirement of the sites is missing or in use."""


def check_machine(topology: Topology, environ: Mapping[str, str], *, with_spark: bool) -> None:
    """Raise if nats-server or Java is missing, or if a port is in use."""
    find_server()
    if with_spark:
        from headwater.replication.spark import check_java

        check_java(environ)
    for site in topology.sites:
        if site.hosts:
            raise NotReadyError(
                f"{site.name} has several hosts, and `site up` runs one machine: use `site config`"
            )
        for key, port in _ports(site):
            if why := _unusable(port):
                raise NotReadyError(
                    f"{site.name} cannot listen on port {port}, {why}: choose another {key} in the site file"
                )


def _ports(site: Site) -> Iterator[tuple[str, int]]:
    """Yield every port of a site with the key that sets it."""
    for node in site.nodes:
        yield from (("port", node.port), ("leaf_port", node.leaf_port), ("monitor_port", node.monitor_port))
        if site.size > 1:
            yield "route_port", node.route_port


def _unusable(port: int) -> str:
    """Return why a port of this machine cannot be used, or ""."""
    with socket.socket() as probe:
        # As servers do: closed connections in TIME_WAIT do not block the port.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            return "which is in use" if error.errno == errno.EADDRINUSE else str(error.strerror or error)
    return ""
