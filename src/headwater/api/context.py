"""What request handlers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from headwater.api.advisories import Advisories
from headwater.api.bulk_writes import BulkWrites
from headwater.api.config_texts import ConfigTexts
from headwater.api.info_texts import InfoTexts
from headwater.api.transfers import Transfers
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.control.consumers import Consumers
from headwater.control.domain import Domain
from headwater.errors import ApiError
from headwater.journal.head_journal import JournalPeer
from headwater.upstreams.upstreams import Upstreams


@dataclass(slots=True)
class RequestCounts:
    """How many requests were answered, and how many of them with an error."""

    total: int = 0
    errors: int = 0


@dataclass(frozen=True, slots=True)
class ApiContext:
    """One account's API: its streams, its connection, and its names."""

    domain: Domain
    connection: Connection
    clock: Clock
    advisories: Advisories
    server_name: str
    transfers: Transfers
    consumers: Consumers
    upstreams: Upstreams
    writes: BulkWrites
    domain_name: str = ""
    cluster_name: str = ""
    peers: Callable[[], list[JournalPeer]] = list
    """Returns the servers that keep copies of the store's journal, besides the leader."""
    counters: RequestCounts = field(default_factory=RequestCounts)
    config_texts: ConfigTexts = field(default_factory=ConfigTexts)
    info_texts: InfoTexts = field(default_factory=InfoTexts)

    def count(self, error: ApiError | None) -> None:
        """Count an answer."""
        self.counters.total += 1
        self.counters.errors += error is not None
