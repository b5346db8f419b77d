"""Removing a client: at its request, or because it does not answer."""

from __future__ import annotations

import logging
from collections.abc import Callable

from headwater.stan import records
from headwater.stan.clients import Client, Clients
from headwater.stan.journal import Journal
from headwater.stan.subscriptions import Subscriptions

logger = logging.getLogger(__name__)


class ClientRemoval:
    """Removes clients together with their subscriptions; durables are kept."""

    def __init__(self, clients: Clients, subscriptions: Subscriptions, journal: Journal) -> None:
        self._clients = clients
        self._subscriptions = subscriptions
        self._journal = journal

    def drop(self, client: Client) -> None:
        """Remove a client that does not answer."""
        logger.info("removed client %s, which does not answer", client.client_id)
        self.remove(client, lambda: None)

    def remove(self, client: Client, then: Callable[[], None]) -> None:
        """Remove a client, and call `then` once that is recorded."""
        self._clients.remove(client)
        ops = self._subscriptions.end_all(client.client_id)
        self._journal.put([*ops, records.remove_client(client.client_id)], then)
