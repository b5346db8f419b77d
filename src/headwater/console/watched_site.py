"""One site that the console watches: its name, its connection, and the address of its monitoring pages."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.client.connection_settings import ConnectionSettings


@dataclass(frozen=True)
class WatchedSite:
    """A JetStream that the console shows, usually named after a context of the `nats` command."""

    name: str
    connection: ConnectionSettings
    monitoring_url: str = ""
    """Where an engine serves /metrics and /readyz, such as http://127.0.0.1:8222; empty if unknown."""
