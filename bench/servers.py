"""The servers that are measured: each a process of its own with a fresh store on loopback."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.generator import Connection

_READY_S = 300.0


def nats_server_program() -> str:
    """Return the nats-server on PATH, else the one installed next to this Python."""
    beside = Path(sys.executable).parent / "nats-server"
    found = shutil.which("nats-server") or (str(beside) if beside.exists() else None)
    if found is None:
        raise SystemExit("nats-server is missing: run `make install`, or put it on PATH")
    return found


@dataclass(frozen=True)
class Server:
    """A running server, its port, and how long it took to answer."""

    port: int
    process: subprocess.Popen[bytes]
    ready_s: float


@contextmanager
def nats_server(directory: Path, sync: str | None = None) -> Iterator[Server]:
    """Run nats-server with JetStream; `sync` is its sync_interval, by default two minutes."""
    port = _free_port()
    directory.mkdir(parents=True)
    interval = f", sync_interval: {sync}" if sync else ""
    config = directory / "server.conf"
    config.write_text(f'listen: "127.0.0.1:{port}"\njetstream {{store_dir: "{directory}"{interval}}}\n')
    with _running([nats_server_program(), "-c", str(config)], directory, port) as server:
        yield server


@dataclass(frozen=True)
class Site:
    """Two nats-servers with JetStream, one a leaf of the other, and Headwater attached to the first."""

    hub: Server
    spoke: Server
    lake: Server
    """Answers at the hub's port, under its own domain."""


@contextmanager
def site(directory: Path, *options: str) -> Iterator[Site]:
    """Run domains `hub`, `spoke` and `lake`, all of which a client of the hub reaches.

    The options are those of Headwater.
    """
    port, leaf_port, spoke_port = _free_port(), _free_port(), _free_port()
    leaf = f'leafnodes {{listen: "127.0.0.1:{leaf_port}"}}'
    remote = f'leafnodes {{remotes: [{{url: "nats://127.0.0.1:{leaf_port}"}}]}}'
    command = [sys.executable, "-m", "headwater", "serve", "--store", str(directory / "lake")]
    command += ["--nats", f"nats://127.0.0.1:{port}", "--leaf", f"nats://127.0.0.1:{leaf_port}"]
    command += ["--domain", "lake", *options]
    with ExitStack() as stack:
        hub = stack.enter_context(_jetstream(directory / "hub", port, f"domain: hub}}\n{leaf}\n"))
        spoke = stack.enter_context(
            _jetstream(directory / "spoke", spoke_port, f"domain: spoke}}\n{remote}\n")
        )
        lake = stack.enter_context(_running(command, directory / "lake-log", port, "$JS.lake.API.INFO"))
        yield Site(hub, spoke, lake)


@contextmanager
def _jetstream(directory: Path, port: int, rest: str) -> Iterator[Server]:
    directory.mkdir(parents=True)
    config = directory / "server.conf"
    # A connection that waits for its turn answers no pings meanwhile.
    listen = f'listen: "127.0.0.1:{port}"\nping_interval: "60m"\n'
    config.write_text(f'{listen}jetstream {{store_dir: "{directory}", {rest}')
    with _running([nats_server_program(), "-c", str(config)], directory, port) as server:
        yield server


@contextmanager
def streaming_server(program: str, directory: Path, cluster_id: str) -> Iterator[Server]:
    """Run nats-streaming-server with its embedded nats-server and a file store that keeps everything."""
    port = _free_port()
    command = [program, "-p", str(port), "-a", "127.0.0.1", "-cid", cluster_id, "-st", "FILE"]
    command += ["-dir", str(directory / "store"), "-mm", "0", "-mb", "0"]
    with _running(command, directory, port, f"_STAN.discover.{cluster_id}") as server:
        yield server


@contextmanager
def headwater(directory: Path, *options: str) -> Iterator[Server]:
    """Run Headwater with its embedded nats-server, on the store in the directory, if there is one."""
    port = _free_port()
    directory.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "headwater", "serve", "--store", str(directory / "store")]
    command += ["--port", str(port), *options]
    # The streaming door opens after the JetStream API.
    asked = (
        f"_STAN.discover.{options[options.index('--stan') + 1]}" if "--stan" in options else "$JS.API.INFO"
    )
    with _running(command, directory, port, asked) as server:
        yield server


@contextmanager
def _running(command: list[str], directory: Path, port: int, asked: str = "$JS.API.INFO") -> Iterator[Server]:
    """Start a process, wait until it answers the JetStream API, and stop it in the end."""
    start = time.perf_counter()
    directory.mkdir(parents=True, exist_ok=True)
    with open(directory / "output.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await_ready(process, port, directory / "output.log", asked)
        yield Server(port, process, time.perf_counter() - start)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await_ready(process: subprocess.Popen[bytes], port: int, log: Path, asked: str) -> None:
    """Return once the API answers."""
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            connection = Connection(port)
            connection.settimeout(1.0)
            answer = connection.request(asked, {})
            connection.close()
            if "error" not in answer:
                return
        except OSError:
            pass
        except ValueError:
            return  # not JSON, but an answer: NATS Streaming has no JSON API
        time.sleep(0.01)
    raise SystemExit(f"{process.args!r} did not come up:\n{log.read_text(errors='replace')[-2000:]}")


def _free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
