"""A real cluster of three nats-servers that holds a journal, each of which a test may kill with its disk."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from headwater.bus.connection import Connection
from headwater.bus.embedded import find_server
from headwater.bus.free_port import free_port
from headwater.bus.options import ConnectOptions
from headwater.journal.jetstream_journal import JetStreamPlace

READY_S = 60
USER, PASSWORD = "journal", "not-a-secret-of-anyone"
_SERVICE = '"$SYS.REQ.SERVER.PING.JSZ"'


class JournalCluster:
    """Three nats-servers with JetStream; the journal has an account of its own."""

    def __init__(
        self,
        directory: Path,
        *,
        sync: str = "always",
        size: int = 3,
        asks: bool = True,
        more: str = "",
        disk: str = "",
    ) -> None:
        """`asks` is whether the journal's account may ask the servers how they sync.

        `disk` is the folder below that of a server that a disk of its own is mounted at.
        """
        self._more = more
        self._disk = disk
        self._directory = directory
        self.ports = [free_port() for _ in range(size)]
        self.routes = [free_port() for _ in range(size)]
        self._processes: list[subprocess.Popen[bytes] | None] = [None] * size
        for number in range(size):
            self.folder(number).mkdir(parents=True)
            (self.folder(number) / "server.conf").write_text(self._config(number, sync, asks))

    def folder(self, number: int) -> Path:
        """Return the folder of one server."""
        return self._directory / f"n{number}"

    def _config(self, number: int, sync: str, asks: bool) -> str:
        routes = ", ".join(f"nats://127.0.0.1:{port}" for port in self.routes)
        # Without advertising, so that a client stays with the address that it was given, such as a cable's.
        listen = f"listen: 127.0.0.1:{self.routes[number]}, no_advertise: true"
        cluster = f"cluster {{ name: journal, {listen}, routes: [{routes}] }}"
        imports = f"imports: [{{ service: {{ account: SYS, subject: {_SERVICE} }} }}]" if asks else ""
        return f"""
            server_name: n{number}
            {self._more}
            listen: 127.0.0.1:{self.ports[number]}
            jetstream {{ store_dir: "{self.folder(number) / self._disk}/jetstream", sync_interval: {sync} }}
            {cluster if len(self.ports) > 1 else ""}
            accounts {{
              SYS: {{
                users: [{{ user: sys, password: sys }}]
                exports: [{{ service: {_SERVICE}, response: stream, accounts: [JOURNAL] }}]
              }}
              JOURNAL: {{
                jetstream: enabled
                users: [{{ user: {USER}, password: {PASSWORD} }}]
                {imports}
              }}
            }}
            system_account: SYS
        """

    @property
    def url(self) -> str:
        """Return the address of the servers, without the name of a journal."""
        return self.url_at(self.ports)

    def url_at(self, ports: list[int]) -> str:
        """Return the address of the servers where they are reached at other ports."""
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return f"nats://{USER}:{PASSWORD}@{hosts}"

    def place(self, name: str, *, is_lenient: bool = False) -> JetStreamPlace:
        """Return where the journal of this name is."""
        servers = tuple(f"nats://{USER}:{PASSWORD}@127.0.0.1:{port}" for port in self.ports)
        return JetStreamPlace(ConnectOptions(servers=servers), name, is_lenient)

    def start(self, number: int) -> None:
        """Start one server."""
        folder = self.folder(number)
        with (folder / "server.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [find_server(), "-c", str(folder / "server.conf")],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
            )

    def start_all(self) -> None:
        """Start all servers, and return once they listen."""
        for number in range(len(self.ports)):
            self.start(number)
        for number in range(len(self.ports)):
            self.await_listening(number)

    def await_listening(self, number: int) -> None:
        """Return once a server accepts connections."""
        deadline = time.monotonic() + READY_S
        while True:
            process = self._processes[number]
            assert process is not None
            assert process.poll() is None, (self.folder(number) / "server.log").read_text()
            try:
                socket.create_connection(("127.0.0.1", self.ports[number]), 1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, (self.folder(number) / "server.log").read_text()
                time.sleep(0.02)

    def kill(self, number: int, *, with_disk: bool = False) -> None:
        """End a server as kill -9 does."""
        process = self._processes[number]
        if process is not None and process.poll() is None:
            process.kill()
            process.wait()
        if with_disk:
            shutil.rmtree(self.folder(number) / self._disk / "jetstream", ignore_errors=True)

    async def info(self, place: JetStreamPlace) -> dict[str, Any]:
        """Return what the cluster says about a journal's stream."""
        connection = Connection(place.options)
        await connection.connect()
        try:
            frame = await connection.request(f"$JS.API.STREAM.INFO.{place.stream}".encode(), b"", 10)
            found: dict[str, Any] = msgspec.json.decode(frame[3])
            return found
        finally:
            await connection.close()

    async def leader(self, place: JetStreamPlace) -> int:
        """Return the number of the server that leads a journal's stream."""
        return int((await self.info(place))["cluster"]["leader"].removeprefix("n"))

    def stop(self) -> None:
        """End all servers."""
        for number in range(len(self.ports)):
            self.kill(number)


@contextmanager
def journal_cluster(
    *, sync: str = "always", size: int = 3, asks: bool = True, more: str = ""
) -> Iterator[JournalCluster]:
    """Run a cluster."""
    with tempfile.TemporaryDirectory(prefix="journal-", ignore_cleanup_errors=True) as directory:
        cluster = JournalCluster(Path(directory), sync=sync, size=size, asks=asks, more=more)
        try:
            cluster.start_all()
            yield cluster
        finally:
            cluster.stop()
