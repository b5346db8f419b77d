"""The runner of pipelines: Spark, and for each account of its engines the queries that the engine orders.

It is a process of its own. It has the credentials of the accounts, and a secret that is not the replicators'.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from headwater.bus.connection import Connection
from headwater.model.unique import unique_id
from headwater.replication.exchange import EngineUnreachableError, Exchange
from headwater.replication.replicator import EngineAt, connected, first_of, gateway, until_orphaned
from headwater.replication.spark import check_java, spark_options
from headwater.replication.work import inbox_prefix
from headwater.spark.pipelines.queries import Queries
from headwater.spark.pipelines.query_frame import SESSION
from headwater.spark.pipelines.worker_python import worker_python
from headwater.wire.pipeline import RunnerOrders, decoded, encoded, run_subject

logger = logging.getLogger(__name__)

APP_NAME = "headwater-pipelines"
ANSWER_S = 10.0
RETRY_S = 1.0
PAUSE_S = 0.05
"""Between two requests, so that an engine that answers at once is not asked continuously."""
T = TypeVar("T")


@dataclass(frozen=True)
class AccountAt:
    """An account whose pipelines are run, and the file with its credentials."""

    engine: EngineAt
    config: Path
    folder: str


@dataclass(frozen=True)
class RunnerOptions:
    """Whose pipelines are run, and with which Spark."""

    accounts: tuple[AccountAt, ...]
    master: str = "local[*]"
    memory: str = "1g"
    functions: tuple[str, ...] = ()
    parent: int | None = None
    """Process id of the engine that started this runner; it ends with the engine."""


async def run_pipelines(options: RunnerOptions) -> None:
    """Run pipelines until cancelled, or until the parent process has ended."""
    began = time.monotonic()
    thread = ThreadPoolExecutor(1, "spark")
    spark = await _on(thread, lambda: _session(options))
    try:
        took_s = round(time.monotonic() - began, 1)
        # Under spark-submit the master is not an option of ours.
        master = spark.sparkContext.master
        logger.info("Spark is running for pipelines", extra={"master": master, "took_s": took_s})
        driving = [asyncio.create_task(_drive(each, spark, thread, options)) for each in options.accounts]
        parents = {"engine that started": options.parent, "Spark that runs": gateway(os.environ)}
        watching = [
            asyncio.create_task(until_orphaned(parent, who, "runner of pipelines"))
            for who, parent in parents.items()
            if parent
        ]
        await first_of(*driving, *watching)
    finally:
        logger.info("stopping Spark")
        await _on(thread, lambda: _stop(spark))
        thread.shutdown(wait=False)


async def _drive(account: AccountAt, spark: Any, thread: ThreadPoolExecutor, options: RunnerOptions) -> None:
    """Run the pipelines of one account until cancelled; they go on while the engine is unreachable."""
    engine = account.engine
    connection = Connection(
        replace(engine.options, inbox_prefix=inbox_prefix(engine.store_id)),
        on_disconnected=lambda _: exchange.interrupt(),
        on_denied=lambda denied: exchange.interrupt(f"no permission to {denied.operation} {denied.subject}"),
    )
    exchange = Exchange(connection, engine.store_id, engine.seat, secret=engine.secret)
    subject = run_subject(engine.store_id, engine.seat)
    reached = {"config": str(account.config), "seat": account.folder}
    queries = Queries(spark, unique_id(), options.functions, reached)
    try:
        await connected(connection)
        while True:
            try:
                report = encoded(await _on(thread, queries.report))
                orders = decoded(RunnerOrders, await exchange.ask(subject, report, ANSWER_S))
            except EngineUnreachableError as error:
                logger.debug("the engine does not answer: %s", error)
                await asyncio.sleep(RETRY_S)
                continue
            await _on(thread, lambda orders=orders: queries.follow(orders))  # type: ignore[misc]
            await asyncio.sleep(PAUSE_S)
    finally:
        await _on(thread, queries.stop)
        await connection.close()


def session_options(options: RunnerOptions) -> dict[str, str]:
    """Return the Spark configuration; under spark-submit all other options come from there."""
    found = spark_options(options.master, options.memory, os.environ) | {
        "spark.app.name": APP_NAME,
        "spark.sql.streaming.noDataProgressEventInterval": "2000",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        "spark.sql.streaming.stopTimeout": "10s",
        **SESSION,
    }
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # The number of state partitions of a query is fixed at its first start. 200 are for large clusters.
        found["spark.sql.shuffle.partitions"] = "4"
        # Between connecting and this, a worker imports pyspark. See early_worker.
        found["spark.python.authenticate.socketTimeout"] = "120s"
        # Here Java does the work, unlike in the replicator's.
        found["spark.driver.extraJavaOptions"] = "-XX:+UseSerialGC"
    return found


def _session(options: RunnerOptions) -> Any:
    check_java(os.environ)
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    if options.master.startswith("local"):
        if "PYSPARK_PYTHON" not in os.environ:
            is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
            os.environ["PYSPARK_PYTHON"] = sys.executable if is_submitted else worker_python()
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    logging.getLogger("py4j").setLevel(logging.WARNING)
    context = SparkContext(conf=SparkConf().setAll(list(session_options(options).items())))
    return SparkSession(context)


def _stop(spark: Any) -> None:
    try:
        spark.stop()
    except Exception as error:
        logger.debug("cannot stop Spark: %s", error)


async def _on(thread: ThreadPoolExecutor, call: Callable[[], T]) -> T:
    """Return what a call returns on the thread of Spark, once it has, even if we are cancelled."""
    return await asyncio.get_running_loop().run_in_executor(thread, call)
