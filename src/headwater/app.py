"""The engine: one store, served to one account or to several, each with a seat of its own.

Start: lock the store and raise its epoch → start the embedded nats-server, or connect to the configured ones
→ open the seats → report each seat as ready. Stop runs the same steps in reverse. An engine whose store was
taken over by another engine stops with an error.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from headwater.announcements import Announcements, PrintedAnnouncements
from headwater.backoff import wait_s
from headwater.bus.embedded import EmbeddedOptions, EmbeddedServer, room_above
from headwater.bus.options import ConnectOptions
from headwater.clock import SystemClock
from headwater.control.ownership import Ownership
from headwater.control.reserve import Reserve
from headwater.control.store_lock import StoreLock
from headwater.engine_parts import EngineParts, open_parts
from headwater.errors import DiskError, Error, StoreLockedError
from headwater.journal.opened_head import CATALOG, OpenedHead, open_head, require_no_mark
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.monitor.serving_state import ServingState
from headwater.replication import handover
from headwater.seat import ENGINE, Seat, Server, open_seat, reach_server
from headwater.settings import Settings
from headwater.stan.role import waiting_role
from headwater.table.first_check import require_usable
from headwater.threads import on_thread
from headwater.web.page_server import PageServer

logger = logging.getLogger(__name__)

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 15.0
PATIENCE_S = 60.0
"""How long the embedded nats-server may take until it listens, and how long a connect is retried."""
LONGEST_END_S = 15.0
"""How long an engine that lost its store may take to close its streams and connections."""


async def serve(settings: Settings, announcements: Announcements | None = None) -> None:
    """Serve the streams of a store until cancelled; by default announcements are printed."""
    store = settings.store
    assert store is not None
    try:
        await _serve_store(settings, store, announcements or PrintedAnnouncements())
    except OSError as error:
        if error.errno is None:
            raise
        logger.debug("the engine stops", exc_info=True)
        if error.filename is None:
            raise Error(f"the engine stops: {os.strerror(error.errno).lower()}") from error
        raise DiskError(Path(os.fsdecode(error.filename)), "use", error.errno) from error


async def _serve_store(settings: Settings, store: Path, announcements: Announcements) -> None:
    """Serve a store until cancelled, as soon as no other engine serves it."""
    await _check_tables(settings, store)
    lock, monitor = StoreLock(store), EngineMonitor(settings, store)
    announcements = _MonitoredAnnouncements(announcements, monitor.status)
    _warn_if_open_to_all(store)
    async with monitor.running():
        try:
            lock.take()
        except StoreLockedError:
            if not settings.waits:
                raise
            async with _waiting_pages(settings, monitor):
                await lock.wait(lambda owner: announcements.waiting(store, owner))
        try:
            if settings.journal is None:
                require_no_mark(store)
            ownership, reserve = Ownership(store), Reserve(store)
            async with _open_head(settings, ownership, announcements, monitor) as head:
                monitor.status.starts()
                await monitor.listen()
                async with reserve.spent():
                    await asyncio.to_thread(
                        ownership.take, head.epoch - 1 if head else 0, is_cache=head is not None
                    )
                serving = _serve(settings, store, ownership, reserve, head, announcements, monitor)
                await _until_lost(ownership, serving)
        finally:
            lock.release()


class _MonitoredAnnouncements:
    """Passes announcements on, and keeps the engine's status."""

    def __init__(self, announcements: Announcements, status: ServingState) -> None:
        self._announcements = announcements
        self._status = status

    def waiting(self, store: Path, owner: str) -> None:
        """Record and announce that another process serves the store."""
        self._status.waits(owner)
        self._announcements.waiting(store, owner)

    def ready(self, url: str, served: str, seconds: float) -> None:
        """Announce what is served."""
        self._announcements.ready(url, served, seconds)


async def _check_tables(settings: Settings, store: Path) -> None:
    """Refuse a bucket that a new store cannot use, before anything is written."""
    address = handover.tables_of(settings)
    if address is not None and not (store / CATALOG).exists():
        has_journal = settings.journal is not None
        await on_thread(
            partial(require_usable, address, store, has_journal=has_journal, may_be_away=settings.standby)
        )


@asynccontextmanager
async def _open_head(
    settings: Settings, ownership: Ownership, announcements: Announcements, monitor: EngineMonitor
) -> AsyncIterator[OpenedHead | None]:
    """Own the journal of the store for the length of a block; without a journal there is nothing to do."""
    if settings.journal is None:
        yield None
        return
    over, loop, store = threading.Event(), asyncio.get_running_loop(), settings.store
    assert store is not None

    def on_owner(owner: str) -> None:
        loop.call_soon_threadsafe(announcements.waiting, store, owner)

    opening = asyncio.ensure_future(
        on_thread(open_head, settings, ownership.last_epoch(), ownership.lose, on_owner, over.is_set)
    )
    try:
        async with AsyncExitStack() as stack:
            if settings.waits:
                await stack.enter_async_context(_waiting_pages(settings, monitor))
            head = await asyncio.shield(opening)
    except asyncio.CancelledError:
        over.set()
        with suppress(Error):
            await on_thread((await opening).close)
        raise
    try:
        yield head
    finally:
        await on_thread(head.close)


def _warn_if_open_to_all(store: Path) -> None:
    """Warn that every user may enter the store; older releases created it so, and it may be intended."""
    if store.exists() and store.stat().st_mode & 0o007:
        logger.warning("all users of this machine can access %s; to restrict it: chmod -R o-rwx", store)


async def _until_lost(ownership: Ownership, work: Coroutine[Any, Any, None]) -> None:
    """Return when the work does; cancel it and raise once another engine has taken over the store."""
    serving = asyncio.create_task(work, name="serve")
    losing = asyncio.create_task(ownership.lost(), name="ownership")
    try:
        await asyncio.wait({serving, losing}, return_when=asyncio.FIRST_COMPLETED)
        if not losing.done():
            return serving.result()
        serving.cancel()
        await asyncio.wait({serving}, timeout=LONGEST_END_S)
        raise losing.result()
    finally:
        losing.cancel()
        serving.cancel()
        await asyncio.wait({serving}, timeout=None if not ownership.is_lost else 0)


async def _serve(
    settings: Settings,
    store: Path,
    ownership: Ownership,
    reserve: Reserve,
    head: OpenedHead | None,
    announcements: Announcements,
    monitor: EngineMonitor,
) -> None:
    """Serve the streams of the store, which this engine owns, until cancelled."""
    async with AsyncExitStack() as stack:
        began = time.monotonic()

        def ready(seat: Seat) -> None:
            url = seat.settings.nats_url or seat.server.named
            announcements.ready(url, str(seat), time.monotonic() - began)

        if settings.seats:
            parts = await open_parts(settings, ownership, reserve, stack, monitor, head)
            async with asyncio.TaskGroup() as seats:
                for seat in settings.seats:
                    seats.create_task(_serve_with_retries(parts, seat, ready))
            return
        if settings.nats_url is not None:
            server = await reach_server(settings)
            parts = await open_parts(settings, ownership, reserve, stack, monitor, head)
            await _serve_seat(parts, settings, server, ready)
            return
        async with reserve.spent():
            embedded = await _start_embedded(settings, store, stack)
        parts = await open_parts(_as_replicator(settings, embedded), ownership, reserve, stack, monitor, head)
        await _serve_seat(parts, settings, _inside(embedded), ready, embedded)


@asynccontextmanager
async def _waiting_pages(settings: Settings, monitor: EngineMonitor) -> AsyncIterator[None]:
    """Serve the pages that show a standby for as long as the engine waits."""
    await monitor.listen_if_free()
    async with AsyncExitStack() as stack:
        for seat in settings.seats or (settings,):
            if seat.stan is None or seat.http_port is None:
                continue
            # Imported here: an engine without NATS Streaming need not wait for these modules.
            from headwater.stan.standby import StandbyPages

            pages = StandbyPages(seat.stan, SystemClock(), waiting_role(settings)).pages
            if seat.http_port == monitor.port:
                monitor.pages.add(pages)
                stack.callback(monitor.pages.remove, pages)
                continue
            server = PageServer(pages)
            try:
                bound = await server.start(seat.http_host, seat.http_port)
            except OSError as error:
                # On the same machine the active engine has the port. This engine takes it over later.
                logger.warning("cannot serve monitoring on port %d as a standby: %s", seat.http_port, error)
                continue
            stack.push_async_callback(server.stop)
            logger.info("standby: monitoring on http://%s:%d", seat.http_host, bound)
        yield


async def _start_embedded(settings: Settings, store: Path, stack: AsyncExitStack) -> EmbeddedServer:
    """Return the embedded nats-server; until it is opened it accepts connections of the engine only."""
    embedded = EmbeddedServer(
        EmbeddedOptions(store, port=settings.port, max_payload=room_above(settings.max_payload_bytes))
    )
    await embedded.start()
    stack.push_async_callback(embedded.stop)
    return embedded


def _inside(embedded: EmbeddedServer) -> Server:
    """Return how the engine connects to its own nats-server."""
    user, password = embedded.options.user, embedded.options.password
    options = ConnectOptions(
        servers=(embedded.client_url,), name=ENGINE, user=user, password=password, patience_s=PATIENCE_S
    )
    leaf = replace(options, servers=(embedded.leaf_url,), name="headwater")
    return Server(options, leaf, embedded.client_url)


def _as_replicator(settings: Settings, embedded: EmbeddedServer) -> Settings:
    """Return the settings with which a replicator and its tasks connect to the embedded nats-server."""
    return replace(
        settings,
        nats_url=embedded.client_url,
        user=embedded.options.replicator_user,
        password=embedded.options.replicator_password,
    )


async def _serve_seat(
    parts: EngineParts,
    settings: Settings,
    server: Server,
    ready: Callable[[Seat], None],
    embedded: EmbeddedServer | None = None,
) -> None:
    """Serve one account until cancelled; an embedded server accepts clients once the seat answers them."""
    async with open_seat(parts, settings, server) as seat:
        if embedded is not None:
            await embedded.open(seat.attached)
        account, status = seat.served(parts.clock), parts.monitor.status
        status.serves(account)
        ready(seat)
        try:
            await asyncio.Event().wait()
        finally:
            status.ended(account)


async def _serve_with_retries(parts: EngineParts, settings: Settings, ready: Callable[[Seat], None]) -> None:
    """Serve one account of several until cancelled; the others are served while its server is unreachable."""
    failures = 0
    while True:
        try:
            await _serve_seat(parts, settings, await reach_server(settings), ready)
        except (Error, OSError) as error:
            # Log every 20th failure only: a server may be unreachable for days.
            level = logging.ERROR if failures % 20 == 0 else logging.DEBUG
            logger.log(level, "the account %s is not served yet: %s", settings.streams_folder, error)
        except Exception:
            logger.exception("the account %s is not served yet", settings.streams_folder)
        failures += 1
        await asyncio.sleep(wait_s(failures, FIRST_WAIT_S, LONGEST_WAIT_S))
