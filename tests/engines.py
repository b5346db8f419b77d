"""Engines as processes of their own, which a test may stop, kill and start again on the same store."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.bus.embedded import CONFIG_NAME
from headwater.bus.free_port import free_port
from waits import pauses

READY_ROUNDS = 3000
READY_WORDS = "headwater is ready"


class RunningEngine:
    """`headwater serve` on one store: with a nats-server of its own, or attached to another by `options`."""

    def __init__(
        self,
        directory: Path,
        options: tuple[str, ...] = (),
        store: Path | None = None,
        prefix: tuple[str, ...] = (),
    ) -> None:
        """`prefix` precedes the command, such as one that runs it on another host."""
        self._prefix = prefix
        self.directory = directory
        self.store = store or directory / "store"
        self.port = 0 if "--nats" in options else free_port()
        self.options = options if "--nats" in options else (*options, "--port", str(self.port))
        self._log = directory / "engine.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client_url(self) -> str:
        """Return where clients of the embedded server connect."""
        assert self.port, "attached to another server"
        return f"nats://127.0.0.1:{self.port}"

    @property
    def leaf_url(self) -> str:
        """Return where leaves of the embedded server connect, with the secret of this run."""
        lines = (self.store / CONFIG_NAME).read_text().splitlines()
        inside = lines[lines.index("leafnodes {") + 1 :]
        address, secret = inside[0].split()[-1], inside[1].split('"')
        return f"nats://{secret[1]}:{secret[3]}@{address}"

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """Return all that the engine has said, in every run."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    async def start(self) -> None:
        """Return once the engine serves."""
        runs = self.log.count(READY_WORDS)
        self.launch()
        await self.says(READY_WORDS, runs + 1)

    async def says(self, words: str, times: int = 1) -> None:
        """Return once the engine has said something so often."""
        for _, pause_s in zip(range(READY_ROUNDS), pauses(), strict=False):
            if self.log.count(words) >= times:
                return
            assert self._process is not None
            if self._process.poll() is not None:
                raise AssertionError(f"the engine ended: {self.log}")
            await asyncio.sleep(pause_s)
        raise AssertionError(f"the engine does not say {words!r}: {self.log}")

    def launch(self) -> None:
        """Start the process."""
        command = [*self._prefix, sys.executable, "-m", "headwater", "serve", "--store", str(self.store)]
        command += self.options
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=clean
            )

    async def ended(self) -> int:
        """Return the status with which the process ends by itself."""
        assert self._process is not None
        return await asyncio.to_thread(self._process.wait, 30)

    async def stop(self) -> None:
        """End the engine in an orderly way."""
        await self._end("terminate")

    async def kill(self) -> None:
        """End the engine at once, as kill -9 does."""
        await self._end("kill")

    async def _end(self, how: str) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            getattr(process, how)()
            try:
                await asyncio.to_thread(process.wait, 30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@asynccontextmanager
async def engine(directory: Path, *options: str) -> AsyncIterator[RunningEngine]:
    """Run an engine; without `--nats` among the options it brings its own nats-server."""
    directory.mkdir(parents=True, exist_ok=True)
    running = RunningEngine(directory, options)
    try:
        await running.start()
        yield running
    finally:
        await running.stop()
