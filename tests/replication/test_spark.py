"""What Spark is started with and how works are shared out; tests/spark runs the real one."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Collection
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import msgspec
import pytest

from headwater.replication.spark import (
    WARM_JOBS,
    WARM_JOBS_OPTION,
    WORKER_ENVIRONMENT,
    SparkCluster,
    SparkLostError,
    SparkMissingError,
    check_java,
    read_bytes,
    shared_out,
    spark_options,
)
from headwater.replication.work import FileRange, NatsOrigin
from headwater.replication.worker.transfer import failed
from replication.works import work_of

SMALL = work_of(stop_seq=1, tail=b"x")
FILES = work_of(stop_seq=1, files=(FileRange("f", 0, 1, 1),))
REMOTE = work_of(stop_seq=1, origin=NatsOrigin(servers=("n",), api_prefix="$JS.API", stream="S"))


def java_saying(tmp_path: Path, text: str) -> dict[str, str]:
    """Return an environment whose Java says this of itself."""
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(tmp_path)}


@pytest.mark.parametrize("text", ['openjdk version "17.0.15" 2025-04-15', 'java version "21" 2023-09-19'])
def test_a_java_that_spark_runs_on_is_taken(tmp_path: Path, text: str) -> None:
    check_java(java_saying(tmp_path, text))


@pytest.mark.parametrize("text", ['java version "1.8.0_402"', 'openjdk version "11.0.2" 2019-01-15'])
def test_a_java_that_is_too_old_is_refused_with_what_to_do(tmp_path: Path, text: str) -> None:
    with pytest.raises(SparkMissingError, match=r"Java (8|11): apt-get install"):
        check_java(java_saying(tmp_path, text))


@pytest.mark.parametrize("environ", [{"PATH": "/nowhere"}, {"JAVA_HOME": "/nowhere"}])
def test_a_missing_java_is_one_sentence_with_what_to_do(environ: dict[str, str]) -> None:
    with pytest.raises(
        SparkMissingError, match=r"Java 17 is missing.*apt-get install -y openjdk-17"
    ) as found:
        check_java(environ)
    assert "\n" not in str(found.value)


def test_a_local_master_tries_a_task_again_and_opens_no_door() -> None:
    options = spark_options("local[*]", "2g", {})
    assert options["spark.master"] == "local[*,4]"
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.driver.memory"] == "2g"
    assert spark_options("local", "1g", {})["spark.master"] == "local[1,4]"


def test_a_cluster_is_named_as_it_was_given() -> None:
    options = spark_options("spark://hub:7077", "1g", {})
    assert options["spark.master"] == "spark://hub:7077"
    assert "spark.driver.bindAddress" not in options


def test_under_spark_submit_nothing_that_was_said_there_is_overruled() -> None:
    options = spark_options("local[*]", "1g", {"PYSPARK_GATEWAY_PORT": "1"})
    assert not {"spark.master", "spark.driver.memory"} & set(options)


def test_tasks_are_spoken_to_by_sockets_of_this_machine_and_java_stays_small() -> None:
    for master in ("local[*]", "spark://hub:7077"):
        options = spark_options(master, "1g", {})
        assert options["spark.python.unix.domain.socket.enabled"] == "true"
        assert options["spark.python.worker.reuse"] == "true"
        assert "TieredStopAtLevel=1" in options["spark.driver.extraJavaOptions"]
    assert "spark.python.unix.domain.socket.enabled" not in spark_options("yarn", "1g", {})
    said = spark_options("local[*]", "1g", {"PYSPARK_GATEWAY_PORT": "1"})
    assert not {"spark.python.unix.domain.socket.enabled", "spark.driver.extraJavaOptions"} & set(said)


def test_tasks_keep_the_memory_they_free_wherever_they_run() -> None:
    for environ in ({}, {"PYSPARK_GATEWAY_PORT": "1"}):
        options = spark_options("yarn", "1g", environ)
        assert {f"spark.executorEnv.{name}": value for name, value in WORKER_ENVIRONMENT.items()}.items() <= (
            options.items()
        )


class SlowSpark:
    """Replaces Spark's context: a job runs until Spark is stopped, and then fails."""

    def __init__(self, conf: object) -> None:
        self.began = threading.Event()
        self.stopped = threading.Event()
        self.jobs: list[tuple[int, int]] = []
        self.threads: list[threading.Thread] = []

    @property
    def defaultParallelism(self) -> int:
        if self.stopped.is_set():
            raise AttributeError("'NoneType' object has no attribute 'sc'")
        return 3

    def getConf(self) -> Conf:
        return Conf()

    def parallelize(self, items: Collection[int], slices: int) -> SlowSpark:
        self.jobs.append((len(items), slices))
        return self

    def map(self, function: Callable[[list[bytes]], list[bytes]]) -> SlowSpark:
        assert function([]) == []
        return self

    def collect(self) -> list[list[bytes]]:
        return []

    def foreach(self, function: Callable[[int], None]) -> None:
        self.threads.append(threading.current_thread())
        self.began.set()
        assert self.stopped.wait(60)
        raise RuntimeError("Job 0 cancelled because SparkContext was shut down")

    def stop(self) -> None:
        self.stopped.set()


class Conf:
    """Replaces Spark's settings."""

    options: ClassVar[dict[str, str]] = {}

    def setAll(self, pairs: list[tuple[str, str]]) -> Conf:
        return self

    def get(self, option: str, default: str) -> str:
        return self.options.get(option, default)


@pytest.fixture
def slow_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have clusters be started on a Spark without Java."""
    pytest.importorskip("pyspark", reason="Spark is not installed")
    monkeypatch.setattr("pyspark.SparkContext", SlowSpark)
    monkeypatch.setattr("pyspark.SparkConf", Conf)
    monkeypatch.setattr("headwater.replication.spark.check_java", lambda environ: None)
    monkeypatch.setattr("headwater.replication.spark.WARMED_S", 0.01)


def context_of(cluster: SparkCluster) -> SlowSpark:
    context: object = cluster._context
    assert isinstance(context, SlowSpark)
    return context


def test_every_slot_is_made_ready_while_others_continue_and_a_stop_ends_that(slow_spark: None) -> None:
    cluster = SparkCluster("spark://hub:7077")
    context = context_of(cluster)
    assert context.began.wait(60)
    assert context.jobs == [(3, 3)]
    assert cluster.slots == 3
    cluster.stop()
    (warming,) = context.threads
    warming.join(60)
    assert not warming.is_alive()
    assert warming is not threading.current_thread()
    with pytest.raises(SparkLostError, match="Spark has ended"):
        _ = cluster.slots


@pytest.mark.parametrize(
    ("options", "empty_jobs"), [({}, WARM_JOBS), ({WARM_JOBS_OPTION: "2"}, 2), ({WARM_JOBS_OPTION: "0"}, 0)]
)
def test_on_this_machine_slots_are_kept_ready_until_spark_is_stopped(
    slow_spark: None, monkeypatch: pytest.MonkeyPatch, options: dict[str, str], empty_jobs: int
) -> None:
    monkeypatch.setattr(Conf, "options", options)
    monkeypatch.setattr("headwater.replication.spark.WARM_S", 0.001)
    rounds = threading.Semaphore(0)

    def at_once(spark: SlowSpark, function: Callable[[int], None]) -> None:
        spark.threads.append(threading.current_thread())
        rounds.release()

    monkeypatch.setattr(SlowSpark, "foreach", at_once)
    with patch.dict("os.environ"):
        cluster = SparkCluster("local[3]")
    for _ in range(5):
        assert rounds.acquire(timeout=60)
    cluster.stop()
    (warming,) = set(context_of(cluster).threads)
    warming.join(60)
    assert not warming.is_alive()
    # Jobs without work come once, behind the first round.
    rounds_begun = len(context_of(cluster).threads)
    assert context_of(cluster).jobs == [(3, 3)] * (empty_jobs + rounds_begun)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_spark_that_is_stopped_before_its_slots_are_ready_is_no_error(
    slow_spark: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlowSpark, "defaultParallelism", property(lambda spark: 1 // 0))
    cluster = SparkCluster("spark://hub:7077")
    cluster.stop()
    cluster._warm()
    assert context_of(cluster).jobs == []


def test_executors_get_the_path_of_their_credentials_file() -> None:
    name = "spark.executorEnv.HEADWATER_EXECUTOR_CONFIG"
    for environ in ({}, {"PYSPARK_GATEWAY_PORT": "1"}):
        assert spark_options("yarn", "1g", environ, "/etc/hw")[name] == "/etc/hw"
        assert name not in spark_options("yarn", "1g", environ)


def test_large_works_get_tasks_of_their_own_and_small_ones_share() -> None:
    assert shared_out([SMALL, FILES, SMALL, REMOTE, SMALL], 2) == [[1], [3], [0, 2, 4]]
    assert shared_out([SMALL] * 9, 2) == [[0, 2, 4, 6, 8], [1, 3, 5, 7]]
    assert [len(task) for task in shared_out([SMALL] * 100, 4)] == [25] * 4
    assert shared_out([SMALL], 8) == [[0]]
    assert shared_out([FILES], 8) == [[0]]


def test_importing_what_executors_run_starts_no_java_and_needs_no_engine() -> None:
    code = (
        "import sys, headwater.replication.worker.transfer\n"
        "engine = ('headwater.stream', 'headwater.control', 'headwater.log', 'pyspark', 'nats')\n"
        "sys.exit(' '.join(name for name in sys.modules if name.startswith(engine)) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_a_job_that_reads_enough_measures_how_much_a_task_may_read(slow_spark: None) -> None:
    cluster = SparkCluster("spark://hub:7077")
    try:
        assert cluster.task_bytes == 0
        cluster._note_pace(1 << 20, 0.1, 2)
        assert cluster.task_bytes == 0
        cluster._note_pace(1 << 30, 1.0, 2)
        assert cluster.task_bytes == 1 << 29
        cluster._note_pace(1 << 30, 8.0, 2)
        assert cluster.task_bytes == 1 << 26
    finally:
        cluster.stop()


def test_what_was_linked_after_all_was_not_read() -> None:
    works = [
        work_of(id=name, stop_seq=1, read_bytes=size) for name, size in (("a", 100), ("b", 100), ("c", 0))
    ]
    linked = [0, 70, 500]
    receipts = [
        msgspec.structs.replace(failed(work, "x"), linked_bytes=size)
        for work, size in zip(works, linked, strict=True)
    ]
    assert read_bytes(works, receipts) == 130


def test_a_master_that_makes_a_secret_for_each_application_has_it_asked_for() -> None:
    assert spark_options("local[2]", "1g", {})["spark.authenticate"] == "true"
    for master in ("yarn", "k8s://https://hub:6443"):
        options = spark_options(master, "1g", {})
        assert (options["spark.authenticate"], options["spark.network.crypto.enabled"]) == ("true", "true")
    assert "spark.authenticate" not in spark_options("spark://hub:7077", "1g", {}), (
        "it has no secret to ask for"
    )
    shared = spark_options("spark://hub:7077", "1g", {"_SPARK_AUTH_SECRET": "given"})
    assert (shared["spark.authenticate"], shared["spark.network.crypto.enabled"]) == ("true", "true")
    assert "given" not in shared.values()
