"""Spark as the replicator uses it: pieces of work go to executors as bytes, and receipts come back."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path

import msgspec

from headwater.errors import Error
from headwater.replication import handover
from headwater.replication.work import Receipt, Work
from headwater.replication.worker.transfer import failed, ready, transfer_all

logger = logging.getLogger(__name__)

JAVA_VERSION = 17
INSTALL_JAVA = "apt-get install -y openjdk-17-jre-headless"
INSTALL_SPARK = "pip install 'headwater[spark]'"
APP_NAME = "headwater-replicator"
WARM_S = 30.0
WARM_JOBS = 30
WARMED_S = 5.0
_TASK_ATTEMPTS = 4
_SMALL_PER_TASK = 8
_TELLING_BYTES = 64 << 20
TASK_S = 1.0
"""About how long a task takes at the most, so that what came later need not wait longer."""
_LOCAL = re.compile(r"local(?:\[(\*|\d+)\])?")
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')

WORKER_ENVIRONMENT = {
    # Freed memory stays with the task: to give it back and fetch it anew for each megabyte read costs as
    # much as copying it.
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "ARROW_DEFAULT_MEMORY_POOL": "system",
}

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Receipt).decode


_AUTH_SECRET = "_SPARK_AUTH_SECRET"
"""The variable in which Spark looks for the secret that a standalone cluster shares."""


class SparkMissingError(Error):
    """Something that Spark needs is not installed; says the line that installs it."""


class SparkLostError(Error):
    """Spark has ended under us; only a new process can have another one."""

    retryable = True


def check_java(environ: Mapping[str, str]) -> None:
    """Raise, with the line that mends it, when there is no Java that Spark can run on."""
    home = environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java", path=environ.get("PATH"))
    try:
        if java is None:
            raise FileNotFoundError
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True, timeout=30)
    except (OSError, subprocess.SubprocessError):
        raise SparkMissingError(
            f"Java {JAVA_VERSION} is missing, on which Spark runs: {INSTALL_JAVA}"
        ) from None
    found = _VERSION.search(said.stderr + said.stdout)
    if found and int(found[1]) < JAVA_VERSION:
        raise SparkMissingError(
            f"Spark needs Java {JAVA_VERSION} or later, and {java} is Java {found[1]}: {INSTALL_JAVA}"
        )


def spark_options(
    master: str, driver_memory: str, environ: Mapping[str, str], executor_config: str = ""
) -> dict[str, str]:
    """Return what Spark is configured with; under spark-submit everything else was said there."""
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
        # Jobs of different threads share the cores, so that a long one does not hold up a short one.
        "spark.scheduler.mode": "FAIR",
        # Java only hands out tasks here: to compile it to the utmost takes cores from them for minutes.
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    if master.startswith(("local", "spark://")):
        # By TCP each task would wait 40 ms for an acknowledgement that its peer holds back. Elsewhere the
        # temporary directory of an executor may have a longer name than such a socket can.
        options["spark.python.unix.domain.socket.enabled"] = "true"
    if local := _LOCAL.fullmatch(master):
        # A local master takes the number of attempts from its own name, and needs no door to the network.
        options |= {
            "spark.master": f"local[{local[1] or 1},{_TASK_ATTEMPTS}]",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
        }
    if local or master == "yarn" or master.startswith("k8s://") or _AUTH_SECRET in environ:
        # Whoever reaches a port of Spark can have it read objects of Java, and so run code. With these
        # masters Spark makes a secret for each application; other clusters must have been given one.
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
            # Workers are our own kind of Python, with our packages, and stay on this machine.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            for name, value in WORKER_ENVIRONMENT.items():
                os.environ.setdefault(name, value)
        logging.getLogger("py4j").setLevel(logging.WARNING)
        self._is_local = master.startswith("local")
        self._stopped = threading.Event()
        self._slot_bytes_per_s = 0.0
        self._context = SparkContext(conf=SparkConf().setAll(list(options.items())))
        self._warming = threading.Thread(target=self._warm, name="warm", daemon=True)
        self._warming.start()

    def _warm(self) -> None:
        """Have a Python ready in every slot before there is work for it: to start one takes a second.

        Spark ends those that had nothing to do for a minute. On this machine they are kept; executors of a
        cluster may be wanted by others. The first dozens of jobs take Java longer than those that follow, so
        they are ones without work.
        """
        first_jobs = WARM_JOBS
        try:
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
            logger.debug("slots were not made ready: %s", _first_line(error))

    def run(self, works: Sequence[Work]) -> list[Receipt]:
        """Return one receipt for each piece of work, in the same order, whatever happens to the tasks."""
        slots = self.slots
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
        except Exception as error:  # Spark's own kinds are many, and py4j's are not among them
            if len(works) == 1 or self._stopped.is_set():
                reason = f"Spark could not run the transfer: {_first_line(error)}"
                return [failed(work, reason) for work in works]
        # One task that takes its executor down must not stop the others.
        logger.warning("the job failed; its pieces of work run one by one", extra={"works": len(works)})
        return [receipt for work in works for receipt in self.run([work])]

    @property
    def task_bytes(self) -> int:
        """Return how much a task may read at the most; nothing as long as nobody knows."""
        return int(self._slot_bytes_per_s * TASK_S)

    def _note_pace(self, read_bytes: int, seconds: float, slots: int) -> None:
        """Remember how fast a slot reads; a job that reads little tells nothing of that."""
        if read_bytes >= _TELLING_BYTES * slots:
            self._slot_bytes_per_s = read_bytes / max(seconds, 0.001) / slots

    def _answers(self, tasks: Sequence[list[bytes]]) -> list[list[bytes]]:
        """Return what each task answers, as one job."""
        answers: list[list[bytes]] = self._context.parallelize(tasks, len(tasks)).map(transfer_all).collect()
        return answers

    @property
    def slots(self) -> int:
        """Return how many tasks run at once; without a living Spark there is nothing left to do here."""
        try:
            return int(self._context.defaultParallelism)
        except Exception as error:
            raise SparkLostError(f"Spark is gone: {_first_line(error)}") from None

    def stop(self) -> None:
        """End what runs, and Spark with it, unless it has ended already."""
        self._stopped.set()
        # A worker whose Spark goes away under it says so in many lines.
        self._warming.join(WARMED_S)
        logger.info("Spark is told to end")
        try:
            self._context.stop()
        except Exception as error:
            logger.debug("Spark could not be stopped: %s", error)


def read_bytes(works: Sequence[Work], receipts: Sequence[Receipt]) -> int:
    """Return how much was read for all works: of what may have to be, some was linked."""
    pairs = zip(works, receipts, strict=True)
    return sum(max(work.read_bytes - receipt.linked_bytes, 0) for work, receipt in pairs)


def shared_out(works: Sequence[Work], parallelism: int) -> list[list[int]]:
    """Return which pieces of work each task does: a task costs more than copying a few messages."""
    large = [[index] for index, work in enumerate(works) if work.files or work.origin is not None]
    small = [index for index, work in enumerate(works) if not (work.files or work.origin is not None)]
    shares = min(parallelism, -(-len(small) // _SMALL_PER_TASK))
    # The large first, so that the small ones fill the cores that are free meanwhile.
    return large + [small[at::shares] for at in range(shares)]


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "Exception" in line), lines[0] if lines else type(error).__name__)
