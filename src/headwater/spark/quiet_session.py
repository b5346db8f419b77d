"""A Spark session of a command: started without output, and stopped when the command ends."""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import IO, Any

from headwater.errors import Error
from headwater.replication.spark import INSTALL_SPARK, SparkMissingError, check_java, spark_options

APP_NAME = "headwater-sql"
SESSION = {
    "spark.sql.session.timeZone": "UTC",
    # A row may hold 8 MiB, and Spark returns up to 10,000 rows at a time.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(64 << 20),
}
_SHOWN_LINES = 5
_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
"""Of PySpark, which logs each refused query as a line of JSON before it raises the error."""


class SparkStartError(Error):
    """Spark did not start; the text has the last lines that it wrote."""


def session_options(master: str, driver_memory: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the configuration of Spark for queries."""
    options = spark_options(master, driver_memory, environ) | {"spark.app.name": APP_NAME}
    if "spark.driver.extraJavaOptions" in options:
        # Unlike a replicator, a query computes in Java: it is worth compiling well.
        options["spark.driver.extraJavaOptions"] = "-XX:+UseParallelGC"
    return options


def check_spark() -> None:
    """Raise an error, with the command that fixes it, if Spark cannot run here."""
    check_java(os.environ)
    if find_spec("pyspark") is None:
        raise SparkMissingError(f"pyspark is missing: {INSTALL_SPARK}")


@contextmanager
def quiet_session(master: str, driver_memory: str) -> Iterator[Any]:
    """Yield a session. If Spark runs in this process already, it is used and goes on."""
    from pyspark import SparkContext
    from pyspark.logger import PySparkLogger
    from pyspark.sql import SparkSession

    for name in _LOGGERS:
        PySparkLogger.getLogger(name).setLevel(logging.CRITICAL)
    is_ours = SparkContext._active_spark_context is None
    # A CREATE TABLE must leave nothing in the user's folder.
    with tempfile.TemporaryDirectory(prefix="headwater-sql-") as warehouse:
        if is_ours:
            options = session_options(master, driver_memory, os.environ)
            _start(options | {"spark.sql.warehouse.dir": warehouse}, is_local=master.startswith("local"))
        session = SparkSession.builder.getOrCreate().newSession()
        for name, value in SESSION.items():
            session.conf.set(name, value)
        try:
            yield session
        finally:
            if is_ours:
                with suppress(Exception):  # it may have ended, or been interrupted, by now
                    session.stop()


def _start(options: Mapping[str, str], is_local: bool) -> None:
    """Start Spark with its log in a file: Java writes warnings before any setting holds."""
    from pyspark import SparkConf, SparkContext

    if is_local:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryFile() as log:
        try:
            with _errors_to(log):
                SparkContext(conf=SparkConf().setAll(list(options.items())))
        except Exception as error:  # Spark has many exception classes, and py4j's do not derive from them
            raise SparkStartError(f"Spark does not start: {_reason(error, log)}") from None


@contextmanager
def _errors_to(log: IO[bytes]) -> Iterator[None]:
    """Give processes that start meanwhile this file as their standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _reason(error: Exception, log: IO[bytes]) -> str:
    log.seek(0)
    lines = [line for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    said = [line.strip() for line in str(error).splitlines() if line.strip()]
    return "\n".join([*said[:1], *lines[-_SHOWN_LINES:]]) or type(error).__name__
