"""An archive of Spark's classes as Java has loaded them, so that Spark starts with half the CPU time.

Dozens of tests start a Spark. `python tests/spark_archive.py` starts one and archives its classes below
`.headwater`; parallel workers have it done once in a clone, while their tests are collected. Java ignores an
archive that does not fit, and tests that find none run as they do without it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from collections.abc import Callable, Mapping, MutableMapping
from importlib.util import find_spec
from pathlib import Path

from headwater.replication.java import java_path

VARIABLE = "SPARK_SUBMIT_OPTS"
"""Holds options for the Java of a Spark driver."""
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Dspark.headwater.warmJobs=1"
"""Tests end before it pays to optimize Java code, or to warm it up."""
FOLDER = Path(__file__).parents[1] / ".headwater" / "spark"
_LIMIT_S = 300.0
_START_SPARK = """
from headwater.replication.spark import SparkCluster
cluster = SparkCluster("local[2]", "512m")
cluster.run([])
java = cluster._context._gateway.proc
cluster.stop()
java.stdin.close()
java.wait()
"""


def archive(environ: Mapping[str, str], folder: Path = FOLDER) -> Path | None:
    """Return the path of the archive for this Java and this pyspark; None if one of them is missing."""
    java, spark = java_path(environ), find_spec("pyspark")
    if java is None or spark is None:
        return None
    program = Path(java).resolve()
    key = f"{program} {program.stat().st_mtime_ns} {spark.origin}"
    return folder / f"{zlib.crc32(key.encode()):08x}.jsa"


def use(environ: MutableMapping[str, str], folder: Path = FOLDER) -> None:
    """Let every Spark that is started with this environment read the archive, if there is one."""
    found = archive(environ, folder)
    shared = f" -XX:SharedArchiveFile={found}" if found is not None and found.exists() else ""
    environ.setdefault(VARIABLE, LIGHT + shared)


def write(environ: Mapping[str, str], folder: Path = FOLDER) -> None:
    """Write the archive unless there is one; a failure costs nothing but time."""
    wanted = archive(environ, folder)
    if wanted is None or wanted.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = wanted.with_suffix(f".{os.getpid()}")
    options = {VARIABLE: f"{LIGHT} -XX:ArchiveClassesAtExit={unfinished}"}
    command = [sys.executable, "-c", _START_SPARK]
    try:
        subprocess.run(command, env={**environ, **options}, capture_output=True, timeout=_LIMIT_S, check=True)
        unfinished.rename(wanted)
    except (OSError, subprocess.SubprocessError):
        unfinished.unlink(missing_ok=True)


def begin(environ: MutableMapping[str, str]) -> Callable[[], None]:
    """Write the archive in another process; return what waits for it and then uses it."""
    process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.DEVNULL, env=dict(environ))

    def finish() -> None:
        process.wait()
        use(environ)

    return finish


if __name__ == "__main__":
    write(os.environ)
