"""What the seats of an engine share: the store with its catalog, threads, cache, replicator and tables."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headwater.clock import Clock, SystemClock
from headwater.control.catalog import Catalog
from headwater.control.ownership import Ownership
from headwater.control.reserve import Reserve
from headwater.control.sqlite_file import NO_REPLICA, Replica
from headwater.disk import Disk, RealDisk
from headwater.fence import Fence
from headwater.journal.head_journal import JournalPeer
from headwater.journal.opened_head import CATALOG, OpenedHead
from headwater.monitor.engine_monitor import EngineMonitor
from headwater.monitor.open_parts import OpenParts
from headwater.monitor.part_numbers import BucketNumbers, JournalNumbers, ReplicatorNumbers
from headwater.open_files import raise_limit, require_files
from headwater.replication import handover
from headwater.replication.handed_keys import HandedKeys
from headwater.replication.supervisor import Supervisor
from headwater.settings import Settings
from headwater.stream.view import RunCache
from headwater.table.bucket_tables import BucketTables
from headwater.threads import ElasticThreads

logger = logging.getLogger(__name__)

CHECKPOINTS = ".pipelines"
"""The folder of the store for checkpoints of pipelines; no account has such a folder."""
SYNC_THREADS = 8
WORK_THREADS = 4


@dataclass(frozen=True)
class EngineParts:
    """What all seats of an engine share: the store, the threads, the replicator."""

    store: Path
    handover: Path
    """The settings file with which transfer tasks connect to the seat's server."""
    has_seats: bool
    """Whether there are several accounts, so that a replicator must name the one it asks for."""
    catalog: Catalog
    fence: Fence
    """Checks that this engine still owns the store."""
    reserve: Reserve
    """Disk space for opening streams when the disk is full."""
    clock: Clock
    cache: RunCache
    sync_executor: Executor
    work_executor: Executor
    has_own_replicator: bool
    """Whether the engine starts the replicator itself, so that there is only one."""
    need_replicator: Callable[[], None]
    """Called when there is an upstream; starts the engine's own replicator."""
    replicator_problem: Callable[[], str]
    """Returns why there is no replicator, if that is known."""
    monitor: EngineMonitor
    """Counts what the engine does, and serves its pages."""
    disk: Disk = field(default_factory=RealDisk)
    """The disk with the streams' files."""
    replica_of: Callable[[Path], Replica] = lambda path: NO_REPLICA
    """Returns where the transactions of a SQLite file of the store are copied to."""
    may_send: Callable[[], bool] | None = None
    """Whether this engine surely owns the store, so that it may answer and deliver; None if always."""
    copies: int = 1
    """How many copies of the head are kept, as far as its journal says."""
    peers: Callable[[], list[JournalPeer]] = list
    """Returns the servers that keep these copies, besides the leader."""
    tables: BucketTables | None = None
    """The bucket for the tables of new streams, if they are not in the store."""
    secret: bytes = b""
    """The secret with which replicators prove who they are; without it none is served."""
    pipelines: PipelineParts | None = None
    """What the pipelines of all accounts share; None if there are none."""


@dataclass(frozen=True)
class PipelineParts:
    """What the pipelines of all accounts share: the runner, and where checkpoints are."""

    checkpoints: Path
    functions: tuple[str, ...]
    secret: bytes
    """The secret with which the runner proves what it is."""
    is_own: bool
    """Whether the engine starts the runner itself, so that there is only one."""
    need_runner: Callable[[], None]
    problem: Callable[[], str]
    """Returns why there is no runner, if that is known."""


async def open_parts(
    settings: Settings,
    ownership: Ownership,
    reserve: Reserve,
    stack: AsyncExitStack,
    monitor: EngineMonitor,
    head: OpenedHead | None = None,
) -> EngineParts:
    """Return what the seats share; each part is closed when the engine stops."""
    async with reserve.spent():
        parts = _opened(settings, ownership, reserve, head, stack, monitor)
    keys = HandedKeys(parts.handover, settings, parts.secret.decode(), parts.fence.check)
    for keeping in (
        asyncio.create_task(reserve.keep(), name="reserve"),
        asyncio.create_task(keys.keep(), name="keys for tasks"),
    ):
        stack.callback(keeping.cancel)
    return parts


def _opened(
    settings: Settings,
    ownership: Ownership,
    reserve: Reserve,
    head: OpenedHead | None,
    stack: AsyncExitStack,
    monitor: EngineMonitor,
) -> EngineParts:
    assert settings.store is not None
    disk: Disk = head.disk if head else RealDisk()
    path = settings.store / CATALOG
    catalog = Catalog(path, disk, ownership, replica=head.database(path) if head else NO_REPLICA)
    stack.callback(catalog.close)
    if catalog.epoch >= ownership.epoch:
        ownership.take(above=catalog.epoch)  # the epoch file was lost
    catalog.claim()
    logger.info("store id %s", catalog.store_id)
    require_files(sum(len(catalog.streams(account)) for account in catalog.accounts()), raise_limit())
    tables = _open_tables(settings, settings.store, catalog.store_id, ownership)
    sync_executor = ElasticThreads(SYNC_THREADS, "sync")
    work_executor = ElasticThreads(WORK_THREADS, "work")
    stack.callback(work_executor.shutdown)
    stack.callback(sync_executor.shutdown)
    owns = settings.replicator == "own"
    config = settings.store / handover.NAME
    secret = handover.secret_for(settings)
    handover.write(config, settings, secret)
    supervisor = Supervisor(settings, config, catalog.store_id)
    stack.push_async_callback(supervisor.stop)
    if owns:
        supervisor.look_for_java()
    pipelines = _pipeline_parts(settings, settings.store, catalog.store_id, secret, stack)
    cache = RunCache(settings.read_cache_bytes)
    monitor.status.opened(_monitored(cache, head, tables, supervisor, owns=owns))
    return EngineParts(
        store=settings.store,
        handover=config,
        secret=secret.encode(),
        has_seats=bool(settings.seats),
        catalog=catalog,
        fence=ownership,
        reserve=reserve,
        clock=SystemClock(),
        cache=cache,
        monitor=monitor,
        sync_executor=sync_executor,
        work_executor=work_executor,
        has_own_replicator=owns,
        need_replicator=supervisor.ensure if owns else lambda: None,
        replicator_problem=lambda: supervisor.problem,
        tables=tables,
        pipelines=pipelines,
        disk=disk,
        may_send=head.is_leased if head else None,
        copies=head.copies if head else 1,
        peers=(lambda: head.peers) if head else list,
        replica_of=head.database if head else lambda path: NO_REPLICA,
    )


def _pipeline_parts(
    settings: Settings, store: Path, store_id: str, secret: str, stack: AsyncExitStack
) -> PipelineParts | None:
    """Return what pipelines share, with a supervisor of their runner; None if there are no pipelines."""
    if settings.pipelines == "off":
        return None
    config, own = store / handover.PIPELINES, handover.pipelines_secret(secret)
    handover.write(config, settings, own, has_tables=False)
    runner = Supervisor(settings, config, store_id, command=("pipeline", "run"), name="runner of pipelines")
    stack.push_async_callback(runner.stop)
    functions = (each.strip() for each in (settings.pipeline_functions or "").split(","))
    is_own = settings.pipelines == "own"
    return PipelineParts(
        checkpoints=settings.pipeline_checkpoints or store / CHECKPOINTS,
        functions=tuple(each for each in functions if each),
        secret=own.encode(),
        is_own=is_own,
        need_runner=runner.ensure if is_own else lambda: None,
        problem=lambda: runner.problem if is_own else "no runner of pipelines asks this engine",
    )


def _monitored(
    cache: RunCache,
    head: OpenedHead | None,
    tables: BucketTables | None,
    supervisor: Supervisor,
    *,
    owns: bool,
) -> OpenParts:
    """Return what the engine's pages read from these parts; `owns` if the engine starts the replicator."""

    def bucket() -> BucketNumbers | None:
        if tables is None:
            return None
        counts = tables.counts
        return BucketNumbers(counts.requests, counts.failures, tables.cached_bytes, not tables.outage)

    def journal() -> JournalNumbers | None:
        if head is None:
            return None
        return JournalNumbers(head.unshipped_bytes, head.journal_bytes, head.is_failing)

    def replicator() -> ReplicatorNumbers | None:
        problem = bool(supervisor.problem)
        return ReplicatorNumbers(supervisor.pid is not None, supervisor.restarts, problem) if owns else None

    return OpenParts(
        cache=cache,
        may_send=head.is_leased if head else None,
        replicator_problem=lambda: supervisor.problem,
        peers=(lambda: head.peers) if head else tuple,
        bucket=bucket,
        journal=journal,
        replicator=replicator,
    )


def _open_tables(settings: Settings, store: Path, store_id: str, ownership: Ownership) -> BucketTables | None:
    """Return where tables are kept that are not in the store, tested and claimed for this store."""
    if settings.tables is None:
        return None
    address = handover.tables_of(settings)
    assert address is not None
    tables = BucketTables(address, store, settings.tables_cache_bytes)
    tables.claim(store_id, ownership.epoch, ownership.lose)
    logger.info("tables of new streams are kept in %s", address.url)
    return tables
