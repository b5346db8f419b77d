"""The engine put together: the only place that knows all parts.

Start: lock the store → nats-server (embedded, or checked and attached to) → open the streams → take
publishes → answer the API → say so. Stop: the same in reverse, so that nothing is taken that cannot be
stored.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from headwater.api.api import Api
from headwater.bus.connection import Connection
from headwater.bus.embedded import EmbeddedOptions, EmbeddedServer
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import ConnectOptions
from headwater.bus.preflight import preflight
from headwater.clock import SystemClock
from headwater.control.account import AccountLimits
from headwater.control.catalog import Catalog
from headwater.control.consumers import Consumers
from headwater.control.domain import Domain
from headwater.control.housekeeper import Housekeeper
from headwater.control.store_lock import StoreLock
from headwater.control.upstreams import Upstreams
from headwater.delivery.outlet import Outlet
from headwater.disk import RealDisk
from headwater.ingest.ingest import Ingest
from headwater.replication.supervisor import Supervisor
from headwater.replication.work import NatsOrigin
from headwater.settings import Settings
from headwater.stream.store import Services
from headwater.stream.view import RunCache

logger = logging.getLogger(__name__)

SYNC_THREADS = 8
WORK_THREADS = 4


async def serve(settings: Settings) -> None:
    """Serve the streams of a store until cancelled."""
    began = time.monotonic()
    async with AsyncExitStack() as stack:
        store = settings.store
        assert store is not None
        lock = StoreLock(store)
        lock.take()
        stack.callback(lock.release)
        server = await _reach_server(settings, store, stack)
        connection = Connection(server.options)
        await connection.connect()
        stack.push_async_callback(connection.close)
        catalog = Catalog(store / "catalog.db")
        stack.callback(catalog.close)
        domain = await _open_domain(settings, store, catalog, connection, stack)
        consumers = await _open_consumers(settings, catalog, connection, server.leaf, stack)
        domain.observe(consumers)
        stack.push_async_callback(consumers.close)
        owns_replicator = settings.replicator == "own"
        upstreams = Upstreams(
            domain,
            connection,
            SystemClock(),
            catalog.store_id,
            _origin(server.options),
            is_single=owns_replicator,
        )
        logger.info("store id %s", catalog.store_id)
        if owns_replicator:
            supervisor = Supervisor(settings, server.options, catalog.store_id)
            upstreams.on_needed = supervisor.ensure
            upstreams.problem = lambda: supervisor.problem
            stack.push_async_callback(supervisor.stop)
        domain.observe(upstreams)
        upstreams.start()
        stack.push_async_callback(upstreams.close)
        ingest = Ingest(connection, settings.domain or "")
        domain.observe(ingest)
        stack.push_async_callback(ingest.stop)
        api = Api(
            domain,
            connection,
            SystemClock(),
            consumers,
            upstreams,
            prefixes=_prefixes(settings),
            server_name=socket.gethostname(),
            domain_name=settings.domain or "",
        )
        api.start()
        stack.push_async_callback(api.stop)
        await connection.flush()
        print(_ready_line(settings, server.named, domain, time.monotonic() - began), flush=True)
        await asyncio.Event().wait()


class Server(NamedTuple):
    """A nats-server to work with: how to connect, as a client and as a leaf, and how a person names it."""

    options: ConnectOptions
    leaf: ConnectOptions | None
    named: str


async def _reach_server(settings: Settings, store: Path, stack: AsyncExitStack) -> Server:
    """Return the nats-server, started or checked."""
    if settings.nats_url is None:
        embedded = EmbeddedServer(
            EmbeddedOptions(store, port=settings.port, max_payload=settings.max_payload_bytes)
        )
        await embedded.start()
        stack.push_async_callback(embedded.stop)
        options = ConnectOptions(servers=(embedded.client_url,), name="headwater engine")
        leaf = replace(options, servers=(embedded.leaf_url,), name="headwater")
        return Server(options, leaf, embedded.client_url)
    options = _connect_options(settings, settings.nats_url)
    wanted = _connect_options(settings, settings.leaf_url) if settings.leaf_url else None
    for limit in await preflight(options, wanted, settings.domain or ""):
        if wanted is not None:
            raise limit  # who names a leaf port means to have messages delivered
        logger.warning("%s", limit)
    return Server(options, wanted, settings.nats_url.rsplit("@", 1)[-1])


async def _open_consumers(
    settings: Settings,
    catalog: Catalog,
    connection: Connection,
    options: ConnectOptions | None,
    stack: AsyncExitStack,
) -> Consumers:
    """Return the account's consumers, with the leaf through which they deliver."""
    leaf = LeafConnection(options, settings.domain or "") if options else None
    consumers = Consumers(
        settings.account, catalog, connection, Outlet(leaf), SystemClock(), settings.domain or ""
    )
    if leaf is not None:
        leaf.on_interest = consumers.on_interest
        await leaf.connect()
        stack.push_async_callback(leaf.close)
    return consumers


def _connect_options(settings: Settings, url: str) -> ConnectOptions:
    return ConnectOptions(
        servers=tuple(url.split(",")),
        name="headwater engine",
        user=settings.user or "",
        password=settings.password or "",
        token=settings.token or "",
        nkey_file=str(settings.nkey or ""),
        creds_file=str(settings.creds or ""),
        tls_ca=str(settings.tls_ca or ""),
        tls_cert=str(settings.tls_cert or ""),
        tls_key=str(settings.tls_key or ""),
    )


async def _open_domain(
    settings: Settings, store: Path, catalog: Catalog, connection: Connection, stack: AsyncExitStack
) -> Domain:
    """Return the account's streams, open and looked after."""
    clock = SystemClock()
    sync_executor = ThreadPoolExecutor(SYNC_THREADS, thread_name_prefix="sync")
    work_executor = ThreadPoolExecutor(WORK_THREADS, thread_name_prefix="work")
    stack.callback(work_executor.shutdown)
    stack.callback(sync_executor.shutdown)
    services = Services(
        settings=settings,
        clock=clock,
        file_disk=RealDisk(),
        memory_disk=RealDisk(sync=False),
        cache=RunCache(settings.read_cache_bytes),
        sync_executor=sync_executor,
        work_executor=work_executor,
        send=connection.write,
        domain=settings.domain or "",
    )
    domain = Domain(
        account=settings.account,
        store=store,
        catalog=catalog,
        services=services,
        limits=AccountLimits.of(settings),
    )
    await domain.open_all()
    stack.push_async_callback(domain.close)
    housekeeper = Housekeeper(settings, clock)
    domain.observe(housekeeper)
    housekeeper.start()
    stack.push_async_callback(housekeeper.stop)
    return domain


def _origin(options: ConnectOptions) -> NatsOrigin:
    """Return how a transfer task reaches an origin: the way that we reach nats-server ourselves."""
    return NatsOrigin(
        servers=options.servers,
        api_prefix="",
        stream="",
        user=options.user,
        password=options.password,
        token=options.token,
        nkey_file=options.nkey_file,
        creds_file=options.creds_file,
        tls_ca=options.tls_ca,
        tls_cert=options.tls_cert,
        tls_key=options.tls_key,
    )


def _prefixes(settings: Settings) -> tuple[str, ...]:
    """Return below which subjects the API is served: plain too where no other JetStream can be."""
    named = (f"$JS.{settings.domain}.API",) if settings.domain else ()
    return named if named and settings.nats_url else ("$JS.API", *named)


def _ready_line(settings: Settings, where: str, domain: Domain, took_s: float) -> str:
    streams = len(domain.names())
    offline = f", {len(domain.offline)} offline" if domain.offline else ""
    named = f" domain {settings.domain}" if settings.domain else ""
    held = f"{streams} streams{offline} in {settings.store}"
    return f"headwater is ready:{named} on {where}, {held} ({took_s:.2f} s)"
