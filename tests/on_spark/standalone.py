"""A standalone Spark master and worker on loopback: a cluster in miniature."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pyspark

from headwater.bus.free_port import free_port
from spark_archive import LIGHT

READY_ROUNDS = 1200
HOME = Path(pyspark.__file__).parent


def cluster_environment() -> dict[str, str]:
    """Return what the parts of the cluster and its drivers run with: this Python, and loopback only."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
    return kept | {
        "SPARK_HOME": str(HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }


@asynccontextmanager
async def standalone(directory: Path) -> AsyncIterator[str]:
    """Run a master and one worker, and yield the master's address."""
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    log = directory / "cluster.log"
    ports = ["--host", "127.0.0.1", "--webui-port", "0"]
    commands = [
        [f"{deploy}.master.Master", *ports, "--port", str(port)],
        [
            f"{deploy}.worker.Worker",
            *ports,
            "--cores",
            "2",
            "--memory",
            "1g",
            "--work-dir",
            str(directory),
            url,
        ],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    try:
        with log.open("ab") as said:
            for command, ready in zip(commands, ("ALIVE", "Successfully registered"), strict=True):
                processes.append(
                    subprocess.Popen(
                        [str(HOME / "bin" / "spark-class"), *command],
                        stdout=said,
                        stderr=said,
                        stdin=subprocess.DEVNULL,
                        env=cluster_environment()
                        | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_DAEMON_JAVA_OPTS": LIGHT},
                    )
                )
                await _says(log, ready, processes[-1])
        yield url
    finally:
        left = [child for process in processes for child in psutil.Process(process.pid).children(True)]
        for process in reversed(processes):
            process.terminate()
            await asyncio.to_thread(process.wait, 30)
        _, alive = await asyncio.to_thread(psutil.wait_procs, left, 30)
        for process in alive:
            process.kill()


async def _says(log: Path, words: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(READY_ROUNDS):
        if words in log.read_text(errors="replace"):
            return
        if process.poll() is not None:
            break
        await asyncio.sleep(0.05)
    raise AssertionError(f"the cluster does not start: {log.read_text(errors='replace')}")
