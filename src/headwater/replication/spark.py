"""Spark as the replicator uses it: ranges go to executors as bytes, and receipts return."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from headwater.errors import Error
from headwater.replication import handover
from headwater.replication.java import INSTALL_JAVA, JAVA_VERSION, MISSING, java_path
from headwater.replication.work import Receipt, Work
from headwater.replication.worker.transfer import failed, ready, transfer_all

logger = logging.getLogger(__name__)

INSTALL_SPARK = "pip install 'pyspark>=4.2'"
APP_NAME = "headwater-replicator"
WARM_S = 30.0
"""How often idle Python workers are kept warm, in seconds."""
WARM_JOBS = 30
"""How many empty jobs run first, unless `WARM_JOBS_OPTION` says otherwise."""
WARM_JOBS_OPTION = "spark.headwater.warmJobs"
WARMED_S = 5.0
_TASK_ATTEMPTS = 4
_SMALL_PER_TASK = 8
_MEASURED_BYTES = 64 << 20
TASK_S = 1.0
"""About how long a task may take, so that later work does not wait longer."""
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

WORKER_ENVIRONMENT = {
    # Keep freed memory in the task: returning it to the system and getting it back for each megabyte read
    # costs as much as copying it.
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Receipt).decode


_AUTH_SECRET = "_SPARK_AUTH_SECRET"
"""The variable in which Spark looks for the secret of a standalone cluster."""


class SparkMissingError(Error):
    """Something that Spark needs is not installed; the text has the command that installs it."""


class SparkLostError(Error):
    """The Spark session has ended; only a new process can start another one."""

    retryable = True


def check_java(environ: Mapping[str, str]) -> None:
    """Raise an error, with the command that fixes it, if there is no Java that Spark can run on."""
    java = java_path(environ)
    try:
        if java is None:
            raise FileNotFoundError
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        raise SparkMissingError(MISSING) from None
    found = _VERSION.search(said.stderr + said.stdout)
    if found and int(found[1]) < JAVA_VERSION:
        raise SparkMissingError(
            f"Spark needs Java {JAVA_VERSION} or later, but {java} is Java {found[1]}: {INSTALL_JAVA}"
        )


def spark_options(
    master: str, driver_memory: str, environ: Mapping[str, str], executor_config: str = ""
) -> dict[str, str]:
    """Return the Spark configuration; under spark-submit all other options come from there."""
    options = {"spark.app.name": APP_NAME, "spark.ui.showConsoleProgress": "false"}
    if executor_config:
        options[f"spark.executorEnv.{handover.HERE}"] = executor_config
    options |= {f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()}
    if "PYSPARK_GATEWAY_PORT" in environ:
        return options
    options |= {
        "spark.master": master,
        "spark.driver.memory": driver_memory,
        "spark.ui.enabled": "false",
        "spark.log.level": "WARN",
        "spark.task.maxFailures": str(_TASK_ATTEMPTS),
        "spark.python.worker.reuse": "true",
        # Jobs of different threads share the cores, so that a long one does not delay a short one.
        "spark.scheduler.mode": "FAIR",
        # Java only schedules tasks here. Full optimization would take cores from them for minutes.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if master.startswith(("local", "spark://")):
        # Over TCP each task would wait 40 ms for a delayed TCP ack. On a cluster the temporary directory of
        # an executor may have a name that is too long for a Unix socket.
        options["spark.python.unix.domain.socket.enabled"] = "true"
    if local := _LOCAL.fullmatch(master):
        # A local master takes the number of attempts from its URL, and needs no network access.
        options |= {
            "spark.master": f"local[{local[1] or 1},{_TASK_ATTEMPTS}]",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    if local or master == "yarn" or master.startswith("k8s://") or _AUTH_SECRET in environ:
        # A client that reaches a port of Spark can have it deserialize Java objects, and so run code. With
        # these masters Spark creates a secret for each application. Other clusters must be given one.
        options["spark.authenticate"] = "true"
        if not local:
            options["spark.network.crypto.enabled"] = "true"
    return options


class SparkCluster:
    """A running Spark application; each plan is one job."""

    def __init__(
        self, master: str = "local[*]", driver_memory: str = "1g", executor_config: str = ""
    ) -> None:
        """Return once Spark runs, which takes seconds."""
        check_java(os.environ)
        try:
            from pyspark import SparkConf, SparkContext
        except ImportError:
            raise SparkMissingError(f"pyspark is missing: {INSTALL_SPARK}") from None
        options = spark_options(master, driver_memory, os.environ, executor_config)
        if master.startswith("local"):
            # Workers use this Python with its packages, and stay on this machine.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            for name, value in WORKER_ENVIRONMENT.items():
                os.environ.setdefault(name, value)
        logging.getLogger("py4j").setLevel(logging.WARNING)
        self._is_local = master.startswith("local")
        self._stopped = threading.Event()
        self._slot_bytes_per_s = 0.0
        """How fast one slot reads; 0 if unknown."""
        self._context = SparkContext(conf=SparkConf().setAll(list(options.items())))
        self._row_jobs: Any = None
        """Runs ranges with pipelines; made when there is one, since that loads Spark SQL."""
        self._warming = threading.Thread(target=self._warm, name="warm", daemon=True)
        self._warming.start()

    def _warm(self) -> None:
        """Have a Python worker ready in every slot before there is work: starting one takes a second.

        Spark ends workers that were idle for a minute. On this machine they are kept. Executors of a cluster
        may be needed by other applications. The first dozens of jobs are slower in Java than later ones, so
        empty jobs run first.
        """
        try:
            first_jobs = int(self._context.getConf().get(WARM_JOBS_OPTION, str(WARM_JOBS)))
            while not self._stopped.is_set():
                slots = self.slots
                self._context.parallelize(range(slots), slots).foreach(ready)
                while first_jobs and not self._stopped.is_set():
                    self._answers([[]] * slots)
                    first_jobs -= 1
                if not self._is_local:
                    return
                self._stopped.wait(WARM_S)
        except Exception as error:
            logger.debug("cannot warm up the slots: %s", _first_line(error))

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Return one receipt for each range, in the same order, whatever happens to the tasks."""
        slots = self.slots
        if any(work.pipeline is not None for work in works):
            return self._run_rows(works)
        tasks = shared_out(works, slots)
        encoded = [[_encode(works[index]) for index in task] for task in tasks]
        try:
            self._context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)
            began = time.monotonic()
            answered = self._answers(encoded)
            took_s = time.monotonic() - began
            in_order = sorted(zip(chain(*tasks), chain(*answered), strict=True))
            receipts = [_decode(receipt) for _, receipt in in_order]
            self._note_pace(read_bytes(works, receipts), took_s, slots)
            return receipts
        except Exception as error:  # Spark has many exception classes, and py4j's do not derive from them
            if len(works) == 1 or self._stopped.is_set():
                reason = f"Spark could not run the transfer: {_first_line(error)}"
                return [failed(work, reason) for work in works]
        # One task that crashes its executor must not fail the others.
        logger.warning("the job failed; running its ranges one by one", extra={"works": len(works)})
        return [receipt for work in works for receipt in self.run([work])]

    def _run_rows(self, works: Sequence[Work]) -> list[Receipt]:
        """Return the receipts of ranges, some or all of which have a pipeline."""
        plain = [index for index, work in enumerate(works) if work.pipeline is None]
        rows = [index for index, work in enumerate(works) if work.pipeline is not None]
        receipts = dict(zip(plain, self.run([works[index] for index in plain]), strict=True)) if plain else {}
        some = [works[index] for index in rows]
        try:
            self._context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)
            answered = self.row_jobs.run(some)
        except Exception as error:  # as in `run`
            if len(some) == 1 or self._stopped.is_set():
                answered = [
                    failed(work, f"Spark could not run the pipeline: {_first_line(error)}") for work in some
                ]
            else:
                logger.warning("the job failed; running its ranges one by one", extra={"works": len(some)})
                answered = [receipt for work in some for receipt in self.run([work])]
        receipts |= zip(rows, answered, strict=True)
        return [receipts[index] for index in range(len(works))]

    def check(self, sql: tuple[str, str, str, bool]) -> str:
        """Return why Spark refuses the SQL of a pipeline; empty if it does not."""
        try:
            return str(self.row_jobs.check(sql))
        except Exception as error:  # as in `run`
            return f"Spark could not check it: {_first_line(error)}"

    @property
    def row_jobs(self) -> Any:
        """Return what runs and checks pipelines."""
        if self._row_jobs is None:
            from headwater.replication.row_jobs import RowJobs

            self._row_jobs = RowJobs(self._context)
        return self._row_jobs

    @property
    def task_bytes(self) -> int:
        """Return how many bytes a task may read; 0 if the speed is unknown."""
        return int(self._slot_bytes_per_s * TASK_S)

    def _note_pace(self, read_bytes: int, seconds: float, slots: int) -> None:
        """Record how fast a slot reads; a job that reads little is not representative."""
        if read_bytes >= _MEASURED_BYTES * slots:
            self._slot_bytes_per_s = read_bytes / max(seconds, 0.001) / slots

    def _answers(self, tasks: Sequence[list[bytes]]) -> list[list[bytes]]:
        """Return the answers of each task, run as one job."""
        answers: list[list[bytes]] = self._context.parallelize(tasks, len(tasks)).map(transfer_all).collect()
        return answers

    @property
    def slots(self) -> int:
        """Return how many tasks run at once; raise SparkLostError if Spark has ended."""
        try:
            return int(self._context.defaultParallelism)
        except Exception as error:
            raise SparkLostError(f"Spark has ended: {_first_line(error)}") from None

    def stop(self) -> None:
        """Cancel running jobs and stop Spark, unless it has ended already."""
        self._stopped.set()
        # A worker whose Spark ends while it runs logs many lines.
        self._warming.join(WARMED_S)
        logger.info("stopping Spark")
        try:
            self._context.stop()
        except Exception as error:
            logger.debug("cannot stop Spark: %s", error)


def read_bytes(works: Sequence[Work], receipts: Sequence[Receipt]) -> int:
    """Return how many bytes were read for all ranges; linked files do not count."""
    pairs = zip(works, receipts, strict=True)
    return sum(max(work.read_bytes - receipt.linked_bytes, 0) for work, receipt in pairs)


def shared_out(works: Sequence[Work], parallelism: int) -> list[list[int]]:
    """Return which ranges each task copies: a task costs more than copying a few messages."""
    large = [[index] for index, work in enumerate(works) if work.files or work.origin is not None]
    small = [index for index, work in enumerate(works) if not (work.files or work.origin is not None)]
    shares = min(parallelism, -(-len(small) // _SMALL_PER_TASK))
    # Large ranges first, so that small ones fill the cores that become free.
    return large + [small[at::shares] for at in range(shares)]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "Exception" in line), lines[0] if lines else type(error).__name__)
