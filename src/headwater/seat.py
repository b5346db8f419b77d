"""One account served: its connections, its streams with their consumers and upstreams, and their APIs.

Open: connect to nats-server and check it → open the streams → accept publishes → answer the API. Close runs
the same steps in reverse, so that the engine accepts nothing that it cannot store.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import ChainMap
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headwater.api.api import Api
from headwater.api.direct import DirectGets
from headwater.api.mirror_direct import MirrorDirectGets
from headwater.bus.connection import Connection
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import ConnectOptions
from headwater.bus.preflight import preflight
from headwater.clock import Clock
from headwater.control.account import AccountLimits
from headwater.control.consumers import Consumers
from headwater.control.domain import Domain
from headwater.control.housekeeper import Housekeeper
from headwater.delivery.outlet import Outlet
from headwater.disk import RealDisk
from headwater.engine_parts import EngineParts
from headwater.errors import SettingsError
from headwater.ingest.ingest import Ingest
from headwater.model.counted import counted
from headwater.model.names import directory_name
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.monitor.part_numbers import StanNumbers
from headwater.monitor.served_account import ServedAccount
from headwater.pipelines.pipelines import Pipelines
from headwater.replication.work import NatsOrigin
from headwater.settings import Settings
from headwater.stan.role import serving_role
from headwater.stream.services import Services
from headwater.upstreams.upstream import Upstream
from headwater.upstreams.upstreams import Upstreams
from headwater.web.page_server import Handler, PageServer
from headwater.wire.pipeline import run_subject

if TYPE_CHECKING:
    from headwater.stan.door import StanDoor

logger = logging.getLogger(__name__)

ENGINE = "headwater engine"
ATTACH_POLL_S = 0.01
GLOBAL = "$G"
"""nats-server's default account; with one seat it means the account that the credentials select."""


class Server(NamedTuple):
    """A nats-server: how to connect to it as a client and as a leaf node, and its name for people."""

    options: ConnectOptions
    leaf: ConnectOptions | None
    """How to connect as a leaf node; without it nothing is delivered to consumers."""
    named: str
    """The address without credentials, for the ready line."""


@dataclass(frozen=True)
class Seat:
    """An account in one domain of one nats-server, served from one folder of the store."""

    settings: Settings
    server: Server
    domain: Domain
    consumers: Consumers
    upstreams: Upstreams
    connection: Connection
    stan: Callable[[], StanNumbers] | None = None
    """Returns the numbers of NATS Streaming, if it is served."""
    pipelines: Pipelines | None = None
    """The account's pipelines, if the engine runs any."""

    def served(self, clock: Clock) -> ServedAccount:
        """Return the account for the metrics."""
        return ServedAccount(
            account=self.settings.account,
            domain_name=self.settings.domain or "",
            server_name=self.settings.server_name or socket.gethostname(),
            domain=self.domain,
            consumers=self.consumers,
            upstreams=self.upstreams,
            clock=clock,
            stan=self.stan,
            pipelines=self.pipelines,
        )

    async def attached(self) -> None:
        """Return once the server has processed all subscriptions of both connections."""
        while True:
            try:
                await self.connection.flush()
                await self.consumers.outlet.flush()
            except (ConnectionError, TimeoutError):
                await asyncio.sleep(ATTACH_POLL_S)
            else:
                return

    def __str__(self) -> str:
        """Return the seat as the ready line shows it."""
        settings = self.settings
        account = f" account {settings.account}" if settings.account != GLOBAL else ""
        named = f" domain {settings.domain}" if settings.domain else ""
        offline = f", {len(self.domain.offline)} offline" if self.domain.offline else ""
        held = f"{counted(len(self.domain.names()), 'stream')}{offline} in {settings.store}"
        return f"{account}{named} on {self.server.named}, {held}".lstrip()


@asynccontextmanager
async def open_seat(parts: EngineParts, settings: Settings, server: Server) -> AsyncIterator[Seat]:
    """Serve an account for the length of a block."""
    name = settings.domain or ""
    async with AsyncExitStack() as stack:
        connection = Connection(replace(server.options, may_send=parts.may_send))
        await connection.connect()
        stack.push_async_callback(connection.close)
        leaf = replace(server.leaf, may_send=parts.may_send) if server.leaf else None
        async with parts.reserve.spent():
            domain, housekeeper = await _open_domain(parts, settings, connection, stack)
            consumers = await _open_consumers(parts, settings, connection, leaf, stack)
            stack.push_async_callback(consumers.close)
            direct = DirectGets(connection, prefixes(settings))
            mirror_direct = MirrorDirectGets(direct.door)
            upstreams = _upstreams_of(parts, settings, domain, connection, mirror_direct.on_looked)
            stack.push_async_callback(upstreams.close)
            # In one turn of the event loop: an ack that arrives before the holds of upstreams would remove
            # messages that are not copied yet, and a hold without consumers would release their messages.
            domain.observe(consumers, consumers.prepare)
            domain.observe(upstreams)
        upstreams.start()
        # Only while consumers and upstreams exist: an interest stream would drop what a schedule publishes
        # before they are open or after they are closed.
        housekeeper.start()
        stack.push_async_callback(housekeeper.stop)
        ingest = Ingest(connection, name)
        domain.observe(ingest)
        stack.push_async_callback(ingest.stop)
        api = Api(
            domain,
            connection,
            parts.clock,
            consumers,
            upstreams,
            direct=direct,
            mirror_direct=mirror_direct,
            prefixes=prefixes(settings),
            server_name=settings.server_name or socket.gethostname(),
            cluster_name=settings.cluster or "",
            domain_name=name,
            peers=parts.peers,
        )
        api.start()
        stack.push_async_callback(api.stop)
        pipelines = _pipelines_of(parts, settings, domain, connection)
        if pipelines is not None:
            await pipelines.open()
            stack.push_async_callback(pipelines.close)
        pages: dict[str, Handler] = {}
        stan: Callable[[], StanNumbers] | None = None
        if settings.stan:
            async with parts.reserve.spent():
                door = await _open_streaming(parts, settings, server, domain, consumers, ingest, stack)
            pages |= _streaming_pages(parts, settings, door)
            stan = partial(_stan_numbers, door)
        await open_pages(settings, parts.monitor, pages, stack)
        await connection.flush()
        yield Seat(settings, server, domain, consumers, upstreams, connection, stan, pipelines)


def _upstreams_of(
    parts: EngineParts,
    settings: Settings,
    domain: Domain,
    connection: Connection,
    on_looked: Callable[[Upstream], None],
) -> Upstreams:
    """Return the account's upstreams, which answer no replicator yet."""
    return Upstreams(
        domain,
        connection,
        parts.clock,
        parts.catalog.store_id,
        NatsOrigin(api_prefix="", stream="", config=str(parts.handover), seat=settings.streams_folder),
        is_single=parts.has_own_replicator,
        secret=parts.secret,
        seat=settings.streams_folder if parts.has_seats else "",
        on_needed=parts.need_replicator,
        on_looked=on_looked,
        problem=parts.replicator_problem,
    )


def _pipelines_of(
    parts: EngineParts, settings: Settings, domain: Domain, connection: Connection
) -> Pipelines | None:
    """Return the account's pipelines, which answer no request yet; None if the engine runs none."""
    shared, folder = parts.pipelines, settings.streams_folder
    if shared is None:
        return None
    return Pipelines(
        domain,
        connection,
        parts.clock,
        parts.catalog,
        prefixes=prefixes(settings),
        folder=folder,
        checkpoints=(shared.checkpoints / directory_name(folder)).absolute(),
        run_subject=run_subject(parts.catalog.store_id, folder if parts.has_seats else ""),
        secret=shared.secret,
        functions=shared.functions,
        is_single=shared.is_own,
        on_needed=shared.need_runner,
        problem=shared.problem,
    )


async def _open_streaming(
    parts: EngineParts,
    settings: Settings,
    server: Server,
    domain: Domain,
    consumers: Consumers,
    ingest: Ingest,
    stack: AsyncExitStack,
) -> StanDoor:
    """Serve NATS Streaming clients too."""
    # Imported here: an engine without NATS Streaming need not wait for these modules.
    from headwater.stan.door import opened as opened_stan

    path = parts.store / f"stan.{directory_name(settings.streams_folder)}.db"
    return await stack.enter_async_context(
        opened_stan(
            settings,
            path,
            domain,
            ingest.connection,
            consumers.outlet if server.leaf else None,
            parts.clock,
            ingest.keep_pace,
            parts.replica_of(path),
        )
    )


def _streaming_pages(parts: EngineParts, settings: Settings, door: StanDoor) -> dict[str, Handler]:
    """Return the monitoring pages of NATS Streaming."""
    from headwater.stan.monitoring import Monitoring

    return Monitoring(door, parts.clock, serving_role(settings, parts.store)).pages


def _stan_numbers(door: StanDoor) -> StanNumbers:
    channels = list(door.channels)
    return StanNumbers(
        clients=len(door.clients),
        subscriptions=sum(channel.subs_count for channel in channels),
        channels=len(channels),
        in_messages=door.publishing.in_msgs,
        in_bytes=door.publishing.in_bytes,
        out_messages=door.outbox.out_msgs,
        out_bytes=door.outbox.out_bytes,
    )


async def open_pages(
    settings: Settings, monitor: EngineMonitor, pages: dict[str, Handler], stack: AsyncExitStack
) -> None:
    """Serve the account's pages on the engine's port, or both on the account's own port."""
    port = settings.http_port
    if port is None or port == monitor.port:
        monitor.pages.add(pages)
        stack.callback(monitor.pages.remove, pages)
        return
    server = PageServer(ChainMap(pages, monitor.pages.by_path))
    try:
        bound = await server.start(settings.http_host, port)
    except OSError as error:
        raise SettingsError(f"http_port: cannot listen on {settings.http_host}:{port}: {error}") from None
    stack.push_async_callback(server.stop)
    logger.info("account %s: monitoring on http://%s:%d", settings.account, settings.http_host, bound)


async def reach_server(settings: Settings) -> Server:
    """Return the running nats-server that the settings name, once its configuration was checked."""
    assert settings.nats_url is not None
    options = ConnectOptions.of(settings, settings.nats_url, ENGINE)
    wanted = ConnectOptions.of(settings, settings.leaf_url, ENGINE) if settings.leaf_url else None
    account = settings.account if settings.account != GLOBAL else ""
    for limit in await preflight(options, wanted, settings.domain or "", account):
        if wanted is not None:
            raise limit  # a leaf address is given, so delivery is expected
        logger.warning("%s", limit)
    return Server(options, wanted, settings.nats_url.rsplit("@", 1)[-1])


def prefixes(settings: Settings) -> tuple[str, ...]:
    """Return the API prefixes: the domain's, and the plain one unless another JetStream may serve it."""
    named = (f"$JS.{settings.domain}.API",) if settings.domain else ()
    return named if named and settings.nats_url else ("$JS.API", *named)


async def _open_domain(
    parts: EngineParts, settings: Settings, connection: Connection, stack: AsyncExitStack
) -> tuple[Domain, Housekeeper]:
    """Return the account's open streams, and their housekeeper, which is not started yet."""
    services = Services(
        settings=settings,
        clock=parts.clock,
        file_disk=parts.disk,
        memory_disk=RealDisk(sync=False),
        cache=parts.cache,
        sync_executor=parts.sync_executor,
        work_executor=parts.work_executor,
        send=connection.write,
        max_payload=lambda: connection.max_payload,
        client_limit=-1 if settings.nats_url else settings.max_payload_bytes,
        domain=settings.domain or "",
        fence=parts.fence,
        tables=parts.tables,
        meters=parts.monitor.meters,
    )
    domain = Domain(
        account=settings.account,
        folder=settings.streams_folder,
        store=parts.store,
        catalog=parts.catalog,
        services=services,
        limits=AccountLimits.of(settings, parts.copies),
    )
    await domain.open_all()
    stack.push_async_callback(domain.close)
    housekeeper = Housekeeper(settings, parts.clock)
    domain.observe(housekeeper)
    return domain, housekeeper


async def _open_consumers(
    parts: EngineParts,
    settings: Settings,
    connection: Connection,
    options: ConnectOptions | None,
    stack: AsyncExitStack,
) -> Consumers:
    """Return the account's consumers, with the leaf connection through which they deliver."""
    leaf = LeafConnection(options, settings.domain or "") if options else None
    consumers = Consumers(
        settings.account,
        parts.catalog,
        connection,
        Outlet(leaf),
        parts.clock,
        settings.domain or "",
        folder=settings.streams_folder,
        names_domain=settings.ack_format == "v2",
        limits=AccountLimits.of(settings, parts.copies),
    )
    if leaf is not None:
        stack.enter_context(consumers.outlet.observed(consumers.on_interest))
        await leaf.connect()
        stack.push_async_callback(leaf.close)
    return consumers
