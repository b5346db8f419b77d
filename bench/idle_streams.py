"""The cost of idle streams: CPU, memory, open files, and the time to open them all."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import psutil

from bench.generator import Connection
from bench.machine import describe
from bench.servers import Server, headwater, nats_server_program

MIB = 1024 * 1024
API = "$JS.API.STREAM"


def engine_of(server: Server) -> psutil.Process:
    """Return the engine's process."""
    return psutil.Process(server.process.pid)


def cpu_s(process: psutil.Process) -> float:
    """Return the CPU seconds that a process has used."""
    times = process.cpu_times()
    return float(times.user + times.system)


def idle(server: Server, streams: int, seconds: float, how: str) -> None:
    """Print what the engine uses while nothing happens."""
    engine = engine_of(server)
    before = cpu_s(engine)
    time.sleep(seconds)
    used = (cpu_s(engine) - before) / seconds
    memory = engine.memory_info().rss / MIB
    print(
        f"{how:<22}{streams:>9,}{used:>16.3f}{memory:>13.0f}{memory * 1024 / max(streams, 1):>14.0f}"
        f"{engine.num_fds():>8,}",
        flush=True,
    )


def declare(server: Server, streams: range) -> None:
    """Create streams, and store one message in each."""
    connection = Connection(server.port)
    for number in streams:
        config = {"name": f"IDLE{number}", "subjects": [f"idle.{number}"], "storage": "file"}
        answer = connection.request(f"{API}.CREATE.IDLE{number}", config)
        assert "error" not in answer, answer
        assert "error" not in connection.request(f"idle.{number}", {"number": number})
    connection.close()


def main() -> None:
    """Measure an engine as its streams grow in number, then open the store again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--streams", type=int, nargs="+", default=[100, 1_000])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long to watch")
    parser.add_argument("--settle", type=float, default=20.0, help="how long to wait before that")
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    print(f"{'':<22}{'streams':>9}{'cores in use':>16}{'memory, MiB':>13}{'KiB a stream':>14}{'files':>8}")
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        with headwater(directory) as server:
            idle(server, 0, arguments.seconds / 4, "empty")
            made = 0
            for streams in arguments.streams:
                declare(server, range(made, streams))
                made = streams
                time.sleep(arguments.settle)
                idle(server, streams, arguments.seconds, "after they were made")
        with headwater(directory) as server:
            used = cpu_s(engine_of(server))
            print(f"opened again: ready in {server.ready_s:.2f} s, {used:.1f} s of processor time")
            time.sleep(arguments.settle)
            idle(server, made, arguments.seconds, "after they were opened")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
