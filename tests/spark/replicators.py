"""Replicators as processes of their own, which a test may kill and start again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from replication.fake_engine import STORE_ID


class RunningReplicator:
    """`headwater replicator` against one server."""

    def __init__(self, url: str, log: Path, *options: str) -> None:
        self._command = [sys.executable, "-m", "headwater", "replicator", "--store-id", STORE_ID]
        self._command += ["--nats", url, "--spark-driver-memory", "512m", *options]
        self._log = log
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """Return all that it has said, in every run."""
        return self._log.read_text(errors="replace")

    def start(self) -> None:
        """Start the process."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=_clean_environment()
            )

    def java(self) -> psutil.Process:
        """Return its Java machine."""
        assert self._process is not None
        (found,) = [p for p in psutil.Process(self._process.pid).children(True) if p.name() == "java"]
        return found

    def signal(self, number: int) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    async def ended(self) -> int:
        """Return the status with which it ends, once none of its processes is left."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, 60)

    def kill(self) -> list[psutil.Process]:
        """Kill it, and return the processes that it leaves behind for now."""
        assert self._process is not None
        children: list[psutil.Process] = []
        if self._process.poll() is None:
            children = psutil.Process(self._process.pid).children(recursive=True)
            self._process.kill()
            self._process.wait()
        return children


@asynccontextmanager
async def replicator(url: str, log: Path, *options: str) -> AsyncIterator[RunningReplicator]:
    """Run a replicator, and leave no process behind."""
    running = RunningReplicator(url, log, *options)
    running.start()
    try:
        yield running
    finally:
        left = running.kill()
        _, alive = await asyncio.to_thread(psutil.wait_procs, left, 30)
        assert alive == []


def _clean_environment() -> dict[str, str]:
    return {
        name: value for name, value in os.environ.items() if not name.startswith(("HEADWATER_", "PYSPARK_"))
    }
