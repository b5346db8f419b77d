"""The replicator: Spark, a connection to each engine's nats-server, and the drivers between them."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.errors import BusError
from headwater.replication.driver import Driver
from headwater.replication.exchange import Exchange
from headwater.replication.spark import SparkCluster
from headwater.replication.work import inbox_prefix

logger = logging.getLogger(__name__)

_CONNECT_WAIT_S = 1.0
_PARENT_CHECK_S = 1.0


@dataclass(frozen=True)
class EngineAt:
    """An engine by its store, and how to reach it."""

    store_id: str
    options: ConnectOptions
    seat: str = ""
    """Which of its seats, by the folder; none where it has but one account."""
    secret: Callable[[], bytes] = field(default=lambda: b"", repr=False)
    """What it knows its replicators by."""


@dataclass(frozen=True)
class ReplicatorOptions:
    """Whose upstreams are copied, where, and with how much; several engines share one Spark."""

    engines: tuple[EngineAt, ...]
    master: str = "local[*]"
    driver_memory: str = "1g"
    executor_config: str = ""
    """Where executors have the file that says who transfers are; empty if it is where the engine wrote it."""
    parent: int | None = None
    """Process id of the engine that started this one, and with which it ends."""


async def replicate(options: ReplicatorOptions) -> None:
    """Copy what the engines plan until cancelled, or until the one that started us is gone."""
    began = time.monotonic()
    # In a thread: Spark would take over the signals of the main one.
    spark = (options.master, options.driver_memory, options.executor_config)
    cluster = await asyncio.to_thread(SparkCluster, *spark)
    try:
        logger.info(
            "Spark is running", extra={"master": options.master, "took_s": round(time.monotonic() - began, 1)}
        )
        driving = [asyncio.create_task(_drive(engine, cluster)) for engine in options.engines]
        parents = {"engine that started": options.parent, "Spark that runs": _gateway(os.environ)}
        watching = [
            asyncio.create_task(_until_orphaned(parent, who)) for who, parent in parents.items() if parent
        ]
        await _first_of(*driving, *watching)
    finally:
        await asyncio.to_thread(cluster.stop)


async def _drive(engine: EngineAt, cluster: SparkCluster) -> None:
    """Copy what one engine plans, until cancelled; a server that comes late holds up no other."""
    connection = Connection(
        replace(engine.options, inbox_prefix=inbox_prefix(engine.store_id)),
        on_disconnected=lambda _: exchange.interrupt(),
        on_denied=lambda denied: exchange.interrupt(f"no permission to {denied.operation} {denied.subject}"),
    )
    exchange = Exchange(
        connection,
        engine.store_id,
        engine.seat,
        cluster.slots,
        lambda: cluster.task_bytes,
        secret=engine.secret,
    )
    try:
        await _connect(connection)
        await Driver(exchange, cluster).drive()
    finally:
        await connection.close()


async def _connect(connection: Connection) -> None:
    """Return once connected, however long it takes; from then on the connection mends itself."""
    said = ""
    while True:
        try:
            return await connection.connect()
        except BusError as error:
            # Once for each reason: a server may be away for days.
            logger.log(logging.DEBUG if said == error.problem else logging.WARNING, "%s", error)
            said = error.problem
        await asyncio.sleep(_CONNECT_WAIT_S)


def _gateway(environ: Mapping[str, str]) -> int | None:
    """Return the process id of the Java that runs this Python, if it was submitted to Spark."""
    return os.getppid() if "PYSPARK_GATEWAY_PORT" in environ else None


async def _until_orphaned(parent: int, who: str) -> None:
    """Return once the parent is gone."""
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells that a parent died
        await asyncio.sleep(_PARENT_CHECK_S)
    logger.warning("the %s this replicator is gone", who)


async def _first_of(*tasks: asyncio.Task[None]) -> None:
    """Wait until one of the tasks ends; cancel the rest."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
