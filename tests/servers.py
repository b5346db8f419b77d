"""Real nats-servers for tests, on free loopback ports."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headwater.bus.embedded import find_server
from headwater.bus.free_port import free_port

READY_ROUNDS = 2000
FORGOTTEN_ROUNDS = 500


class RunningServer:
    """A nats-server process that a test may stop, kill and start again on the same ports and store."""

    def __init__(
        self,
        directory: Path,
        config: str | None,
        *,
        jetstream: bool | str,
        leaf: bool | str,
        binary: str = "",
    ) -> None:
        self.directory = directory
        self.binary = binary or find_server()
        self.port = free_port()
        self.leaf_port = free_port() if leaf else 0
        lines = [f"listen: 127.0.0.1:{self.port}"]
        if jetstream:
            domain = f", domain: {jetstream}" if isinstance(jetstream, str) else ""
            lines.append(f'jetstream {{ store_dir: "{directory}/jetstream"{domain} }}')
        if leaf:
            inside = leaf if isinstance(leaf, str) else ""
            lines.append(f"leafnodes {{ listen: 127.0.0.1:{self.leaf_port}\n{inside} }}")
        self.config_file = directory / "server.conf"
        self.config_file.write_text("\n".join([*lines, config or ""]) + "\n")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def client_url(self) -> str:
        """Return where clients connect."""
        return f"nats://127.0.0.1:{self.port}"

    @property
    def leaf_url(self) -> str:
        """Return where leaves connect."""
        assert self.leaf_port, "started without leaf=True"
        return f"nats://127.0.0.1:{self.leaf_port}"

    @property
    def pid(self) -> int:
        """Return the process id."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """Return all that the server has said."""
        return (self.directory / "server.log").read_text()

    async def forgotten(self, stream: str) -> None:
        """Return once nothing of a deleted stream is left on disk, or after a while.

        nats-server answers a delete before that, and a stream of the same name created too early can start
        with the messages of the deleted one.
        """
        streams = self.directory / "jetstream" / "jetstream" / "$G" / "streams"
        for _ in range(FORGOTTEN_ROUNDS):
            if not (streams / stream).exists() and not (streams / f".{stream}").exists():
                return
            await asyncio.sleep(0.001)

    async def start(self) -> None:
        """Return once the server listens on all its ports."""
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binary, "-c", str(self.config_file)], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        for port in filter(None, (self.port, self.leaf_port)):
            for _ in range(READY_ROUNDS):
                if self._process.poll() is not None:
                    raise AssertionError(f"nats-server ended: {self.log}")
                if await self._listens(port):
                    break
                await asyncio.sleep(0.005)
            else:
                raise AssertionError(f"nats-server does not listen on {port}: {self.log}")

    async def stop(self) -> None:
        """End the server in an orderly way."""
        await self._end("terminate")

    async def kill(self) -> None:
        """End the server at once, as kill -9 does."""
        await self._end("kill")

    async def restart(self) -> None:
        """Start again on the same ports, with the same store."""
        await self.stop()
        await self.start()

    async def _end(self, how: str) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            getattr(process, how)()
            try:
                await asyncio.to_thread(process.wait, 10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def _listens(self, port: int) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True


@asynccontextmanager
async def nats_server(
    config: str | None = None, *, jetstream: bool | str = False, leaf: bool | str = False, binary: str = ""
) -> AsyncIterator[RunningServer]:
    """Run a nats-server, the usual one or another release's binary.

    `jetstream` may be a domain, `leaf` the inside of the leafnodes block.
    """
    with tempfile.TemporaryDirectory(prefix="nats-server-") as directory:
        server = RunningServer(Path(directory), config, jetstream=jetstream, leaf=leaf, binary=binary)
        try:
            await server.start()
            yield server
        finally:
            await server.stop()
