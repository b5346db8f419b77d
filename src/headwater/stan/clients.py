"""The connected clients: unique client ids, and their missed heartbeats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Client:
    """One connected client, as given in its connect request."""

    client_id: str
    heartbeat_inbox: str
    conn_id: bytes = b""
    protocol: int = 0
    ping_interval: int = 0
    ping_max_out: int = 0


class Clients:
    """The connected clients, found by client id or by connection id."""

    def __init__(self, max_failures: int) -> None:
        self._max_failures = max_failures
        self._by_id: dict[str, Client] = {}
        self._by_conn: dict[bytes, Client] = {}
        self._failures: dict[str, int] = {}
        """How many heartbeats in a row each client has not answered."""
        self.checking: set[str] = set()
        """Ids whose owner is being checked because another client requests the id."""

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Client]:
        return iter(self._by_id.values())

    def __contains__(self, client: Client) -> bool:
        return self._by_id.get(client.client_id) is client

    def get(self, client_id: str) -> Client | None:
        """Return the client of this id."""
        return self._by_id.get(client_id)

    def of_connection(self, conn_id: bytes) -> Client | None:
        """Return the client of this connection."""
        return self._by_conn.get(conn_id)

    def publisher(self, client_id: str, conn_id: bytes) -> Client | None:
        """Return the client of a publish, by its connection id if there is one."""
        return self._by_conn.get(conn_id) if conn_id else self._by_id.get(client_id)

    def add(self, client: Client) -> None:
        """Add a client; its id must be unused."""
        assert client.client_id not in self._by_id
        self._by_id[client.client_id] = client
        if client.conn_id:
            self._by_conn[client.conn_id] = client

    def remove(self, client: Client) -> None:
        """Remove a client."""
        del self._by_id[client.client_id]
        if self._by_conn.get(client.conn_id) is client:
            del self._by_conn[client.conn_id]
        self._failures.pop(client.client_id, None)

    def answered(self, client: Client) -> bool:
        """Record an answered heartbeat; return whether the client was in doubt."""
        return self._failures.pop(client.client_id, 0) > 0

    def missed(self, client: Client) -> bool:
        """Record a missed heartbeat; return whether the client has missed too many."""
        failures = self._failures[client.client_id] = self._failures.get(client.client_id, 0) + 1
        return failures > self._max_failures

    def in_doubt(self, client_id: str) -> bool:
        """Return whether a client missed its last heartbeat."""
        return client_id in self._failures
