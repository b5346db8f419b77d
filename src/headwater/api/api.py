"""The JetStream API of one account: requests, direct gets, snapshots, advisories."""

from __future__ import annotations

from collections.abc import Callable

from headwater.api.advisories import Advisories
from headwater.api.bulk_writes import BulkWrites
from headwater.api.context import ApiContext
from headwater.api.direct import DirectGets
from headwater.api.dispatcher import Dispatcher
from headwater.api.mirror_direct import MirrorDirectGets
from headwater.api.transfers import Transfers, TransferTimeouts
from headwater.bus.connection import Connection
from headwater.clock import Clock
from headwater.control.consumers import Consumers
from headwater.control.domain import Domain
from headwater.journal.head_journal import JournalPeer
from headwater.upstreams.upstreams import Upstreams


class Api:
    """Answers for a domain on `$JS.API`, or on `$JS.<name>.API` next to another JetStream, or on both."""

    def __init__(
        self,
        domain: Domain,
        connection: Connection,
        clock: Clock,
        consumers: Consumers,
        upstreams: Upstreams,
        *,
        direct: DirectGets,
        mirror_direct: MirrorDirectGets,
        prefixes: tuple[str, ...],
        server_name: str,
        domain_name: str = "",
        cluster_name: str = "",
        peers: Callable[[], list[JournalPeer]] = list,
        timeouts: TransferTimeouts | None = None,
    ) -> None:
        advisories = Advisories(connection, clock, domain.account, server_name, domain_name)
        self._transfers = Transfers(timeouts)
        self._writes = BulkWrites(domain, connection, clock)
        context = ApiContext(
            domain=domain,
            connection=connection,
            clock=clock,
            advisories=advisories,
            server_name=server_name,
            transfers=self._transfers,
            consumers=consumers,
            upstreams=upstreams,
            writes=self._writes,
            domain_name=domain_name,
            cluster_name=cluster_name,
            peers=peers,
        )
        self._domain = domain
        self._advisories = advisories
        self._dispatcher = Dispatcher(context, prefixes)
        self._direct = direct
        self._mirror_direct = mirror_direct

    def start(self) -> None:
        """Answer requests from now on."""
        self._domain.observe(self._direct)
        self._domain.observe(self._mirror_direct)
        self._domain.observe(self._advisories)
        self._dispatcher.start()

    async def stop(self) -> None:
        """Accept no more requests; return once accepted ones are answered and transfers have ended."""
        await self._dispatcher.stop()
        await self._writes.close()
        await self._transfers.close()
        await self._direct.drain()
