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
    """An engine, identified by its store, and how to reach it."""

    store_id: str
    options: ConnectOptions
    seat: str = ""
    """The seat's folder; empty if the engine has only one account."""
    secret: Callable[[], bytes] = field(default=lambda: b"", repr=False)
    """Returns the secret that it shares with its replicators."""


@dataclass(frozen=True)
class ReplicatorOptions:
    """Which engines' upstreams are copied, and with which Spark; several engines share one Spark."""

    engines: tuple[EngineAt, ...]
    master: str = "local[*]"
    driver_memory: str = "1g"
    executor_config: str = ""
    """Where executors have the file with credentials; empty if it is where the engine wrote it."""
    parent: int | None = None
    """Process id of the engine that started this replicator; it ends with the engine."""


async def replicate(options: ReplicatorOptions) -> None:
    """Copy what the engines plan until cancelled, or until the parent process has ended."""
    began = time.monotonic()
    # In a thread, because Spark would replace the signal handlers of the main thread.
    spark = (options.master, options.driver_memory, options.executor_config)
    cluster = await asyncio.to_thread(SparkCluster, *spark)
    try:
        logger.info(
            "Spark is running", extra={"master": options.master, "took_s": round(time.monotonic() - began, 1)}
        )
        driving = [asyncio.create_task(_drive(engine, cluster)) for engine in options.engines]
        parents = {"engine that started": options.parent, "Spark that runs": gateway(os.environ)}
        watching = [
            asyncio.create_task(until_orphaned(parent, who)) for who, parent in parents.items() if parent
        ]
        await first_of(*driving, *watching)
    finally:
        await asyncio.to_thread(cluster.stop)


async def _drive(engine: EngineAt, cluster: SparkCluster) -> None:
    """Copy what one engine plans until cancelled; a server that is not reachable delays no other."""
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
        await connected(connection)
        await Driver(exchange, cluster).drive()
    finally:
        await connection.close()


async def connected(connection: Connection) -> None:
    """Return once connected, however long it takes; from then on the connection reconnects by itself."""
    said = ""
    while True:
        try:
            return await connection.connect()
        except BusError as error:
            # Log each reason once: a server may be unreachable for days.
            logger.log(logging.DEBUG if said == error.problem else logging.WARNING, "%s", error)
            said = error.problem
        await asyncio.sleep(_CONNECT_WAIT_S)


def gateway(environ: Mapping[str, str]) -> int | None:
    """Return the process id of the Java gateway if this process was submitted to Spark."""
    return os.getppid() if "PYSPARK_GATEWAY_PORT" in environ else None


async def until_orphaned(parent: int, who: str, what: str = "replicator") -> None:
    """Return once the parent process has ended."""
    while os.getppid() == parent:  # noqa: ASYNC110 - there is no event for a parent's death
        await asyncio.sleep(_PARENT_CHECK_S)
    logger.warning("the %s this %s has ended", who, what)


async def first_of(*tasks: asyncio.Task[None]) -> None:
    """Wait until one of the tasks ends; cancel the others."""
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
