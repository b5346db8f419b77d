"""Replicators as processes of their own, which a test may kill and start again."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from on_spark.standalone import cluster_environment
from replication.fake_engine import SECRET, STORE_ID

PROGRAM = (sys.executable, "-m", "headwater")


class RunningReplicator:
    """`headwater replicator` against one server."""

    def __init__(
        self, url: str, log: Path, *options: str, program: Sequence[str] = PROGRAM, store_id: str = STORE_ID
    ) -> None:
        self._command = [*program, "replicator", "--store-id", store_id, "--nats", url, *options]
        if "--store" not in options:
            self._command += ["--replication-secret", SECRET.decode()]
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
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=cluster_environment()
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
        """Return the status with which it ends, once it has."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, 60)

    def descendants(self) -> list[psutil.Process]:
        """Return the processes that it has started, and those that they have."""
        assert self._process is not None
        return list(psutil.Process(self._process.pid).children(recursive=True))

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
async def replicator(
    url: str, log: Path, *options: str, program: Sequence[str] = PROGRAM, store_id: str = STORE_ID
) -> AsyncIterator[RunningReplicator]:
    """Run a replicator, and leave no process behind."""
    running = RunningReplicator(url, log, *options, program=program, store_id=store_id)
    running.start()
    try:
        yield running
    finally:
        left = running.kill()
        _, alive = await asyncio.to_thread(psutil.wait_procs, left, 30)
        assert alive == []
