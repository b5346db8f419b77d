"""What many messages cost Headwater: memory while publishing, files, and the time to open the store."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from bench.generator import Connection, publish
from bench.machine import describe
from bench.servers import Server, headwater, nats_server_program

STREAM = {"name": "BENCH", "subjects": ["bench.*"], "storage": "file"}
MIB = 1024 * 1024


@contextmanager
def watched(pid: int, store: Path, every_s: float = 1.0) -> Iterator[list[tuple[float, int]]]:
    """Collect the engine's memory in MiB and the number of files in its store, once a second."""
    samples: list[tuple[float, int]] = []
    done = threading.Event()
    engine = psutil.Process(pid)

    def look() -> None:
        finished = False
        while not finished:
            finished = done.wait(every_s)
            samples.append((engine.memory_info().rss / MIB, count_files(store)))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield samples
    finally:
        done.set()
        watcher.join()


def count_files(store: Path) -> int:
    """Return how many files the store holds."""
    return sum(1 for path in store.rglob("*") if path.is_file())


def state(server: Server) -> dict[str, int]:
    """Return the stream's state."""
    connection = Connection(server.port)
    answer: dict[str, int] = connection.request("$JS.API.STREAM.INFO.BENCH", {})["state"]
    connection.close()
    return answer


def fill(directory: Path, messages: int, size: int, settle_s: float) -> None:
    """Publish the messages, and print memory and files as their number grows."""
    with headwater(directory) as server:
        print(f"empty store: ready in {server.ready_s:.2f} s")
        connection = Connection(server.port)
        connection.request("$JS.API.STREAM.CREATE.BENCH", STREAM)
        print(f"{'messages':>12}{'msg/s':>12}{'memory, MiB':>14}{'most':>8}{'files':>8}{'most':>8}")
        for tenth in range(1, 11):
            with watched(server.process.pid, directory / "store") as samples:
                done = publish(connection, size, messages=messages // 10)
            memories, files = zip(*samples, strict=True)
            print(
                f"{tenth * messages // 10:>12,}{done.rate:>12,.0f}{memories[-1]:>14.0f}{max(memories):>8.0f}"
                f"{files[-1]:>8}{max(files):>8}"
            )
        connection.close()
        print(f"stream: {state(server)}")
        time.sleep(settle_s)
        print(f"{settle_s:g} s later: {count_files(directory / 'store')} files")


def reopen(server: Server, directory: Path, how: str) -> None:
    """Print how long a store took to open, and what it takes."""
    memory = psutil.Process(server.process.pid).memory_info().rss / MIB
    messages, files = state(server)["messages"], count_files(directory / "store")
    print(f"{how}: ready in {server.ready_s:.2f} s, {memory:.0f} MiB, {files} files, {messages:,} messages")


def publish_and_kill(server: Server, messages: int, size: int) -> None:
    """Publish some more and kill the engine and its nats-server, so that the log has something to replay."""
    connection = Connection(server.port)
    publish(connection, size, messages=messages)
    connection.close()
    embedded = psutil.Process(server.process.pid).children(recursive=True)
    server.process.kill()
    server.process.wait()
    for process in embedded:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def main() -> None:
    """Fill a store, then open it after a clean stop and after a kill."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000_000)
    parser.add_argument("--size", type=int, default=128, help="payload bytes")
    parser.add_argument("--settle", type=float, default=75.0, help="seconds to wait for replaced files to go")
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        fill(directory, arguments.messages, arguments.size, arguments.settle)
        with headwater(directory) as server:
            reopen(server, directory, "after a clean stop")
            publish_and_kill(server, arguments.messages // 100, arguments.size)
        with headwater(directory) as server:
            reopen(server, directory, "after kill -9")
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
