"""How fast an engine with 2,000 consumers on one stream, 200 of them pulling, answers a request."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import quantiles

from bench import servers
from bench.comparison import HEADWATER, NATS_SERVER, RESULTS, fill
from bench.generator import SUBJECTS, Connection
from bench.machine import describe
from bench.subscriber import ACK_SUBJECT, STREAM

PULLERS = 4
BATCH = 100
PAUSE_S = 0.002
_EXPIRES_NS = 30_000_000_000
_LIMIT_REACHED = 10026  # nats-server accepts a thousand per stream unless its limits are raised


def declare(port: int, consumers: int) -> tuple[int, float]:
    """Create durable consumers of one subject each; return how many there are, and the time for each."""
    connection = Connection(port)
    start = time.perf_counter()
    for number in range(consumers):
        config = {
            "durable_name": f"c{number}",
            "ack_policy": "explicit",
            "filter_subject": f"bench.{number % SUBJECTS:02d}",
        }
        body = {"stream_name": STREAM, "config": config}
        answer = connection.request(f"$JS.API.CONSUMER.DURABLE.CREATE.{STREAM}.c{number}", body)
        if "error" in answer:
            if answer["error"]["err_code"] != _LIMIT_REACHED:
                raise SystemExit(f"consumer {number} was refused: {answer['error']}")
            consumers = number
            break
    connection.close()
    return consumers, (time.perf_counter() - start) / consumers


def pull(port: int, names: range, done: Event, taken: multiprocessing.Queue[int]) -> None:
    """Pull and acknowledge with many consumers on one connection, until stopped."""
    connection = Connection(port, b"_INBOX.puller%d" % names.start)
    connection.settimeout(0.5)
    owed = dict.fromkeys(names, 0)
    total, rest = 0, b""
    while not done.is_set():
        for number in names:
            if owed[number] <= 0:
                subject = f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.c{number}"
                connection.ask(subject, {"batch": BATCH, "expires": _EXPIRES_NS})
                owed[number] = BATCH
        try:
            rest += connection.receive()
        except TimeoutError:
            continue
        end = rest.rfind(b"\r\n") + 2 if b"\r\n" in rest else 0
        data, rest = rest[:end], rest[end:]
        if b"PING\r\n" in data:
            connection.send(b"PONG\r\n")
        acks = ACK_SUBJECT.findall(data)
        for ack in acks:
            owed[int(ack.split(b".")[3][1:])] -= 1
        total += len(acks)
        connection.send(b"".join([b"PUB %b 0\r\n\r\n" % ack for ack in acks]))
    taken.put(total)
    connection.close()


@contextmanager
def pulling(port: int, consumers: int) -> Iterator[multiprocessing.Queue[int]]:
    """Pull from consumers in separate processes; each reports in the end how many messages it took."""
    done = multiprocessing.Event()
    taken: multiprocessing.Queue[int] = multiprocessing.Queue()
    processes = [
        multiprocessing.Process(target=pull, args=(port, range(first, consumers, PULLERS), done, taken))
        for first in range(PULLERS)
    ]
    for process in processes:
        process.start()
    try:
        yield taken
    finally:
        done.set()
        for process in processes:
            process.join(10)


def latency(port: int, seconds: float) -> list[float]:
    """Return how many milliseconds STREAM.INFO took, asked repeatedly."""
    connection = Connection(port)
    found = []
    deadline = time.perf_counter() + seconds
    while time.perf_counter() < deadline:
        start = time.perf_counter()
        connection.request(f"$JS.API.STREAM.INFO.{STREAM}", {})
        found.append((time.perf_counter() - start) * 1e3)
        time.sleep(PAUSE_S)
    connection.close()
    return found


def measure(port: int, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Return the latencies with no consumer, with all of them idle, while some pull, and afterwards."""
    seconds = arguments.seconds
    fill(port, arguments.messages)
    found = {"no consumers": latency(port, seconds)}
    consumers, each_s = declare(port, arguments.consumers)
    found[f"{consumers} idle"] = latency(port, seconds)
    start = time.perf_counter()
    with pulling(port, arguments.pulling) as taken:
        found[f"{arguments.pulling} pulling"] = latency(port, seconds)
    rate = sum(taken.get() for _ in range(PULLERS)) / (time.perf_counter() - start)
    found["afterwards"] = latency(port, seconds)
    print(f"  a consumer is made in {each_s * 1e3:.1f} ms; {rate:,.0f} msg/s are fetched and acknowledged")
    return found


def main() -> None:
    """Measure both servers, one after the other, and save the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumers", type=int, default=2_000)
    parser.add_argument("--pulling", type=int, default=200)
    parser.add_argument("--messages", type=int, default=400_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    machine = describe(servers.nats_server_program())
    print(f"{machine}\nhow long STREAM.INFO takes, milliseconds")
    figures: dict[str, dict[str, dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as top:
        kinds: dict[str, Callable[[Path], AbstractContextManager[servers.Server]]] = {
            NATS_SERVER: servers.nats_server,
            HEADWATER: servers.headwater,
        }
        for name, run in kinds.items():
            print(name)
            with run(Path(top) / name) as server:
                found = measure(server.port, arguments)
            figures[name] = {what: _figures(taken) for what, taken in found.items()}
            for what, row in figures[name].items():
                print(f"  {what:<16}" + "".join(f"{key:>6} {value:>9.2f}" for key, value in row.items()))
    RESULTS.mkdir(exist_ok=True)
    written = json.dumps({"machine": machine, "milliseconds": figures}, indent=2)
    (RESULTS / "consumers.json").write_text(written + "\n")


def _figures(taken: list[float]) -> dict[str, float]:
    cuts = quantiles(taken, n=100)
    return {"p50": cuts[49], "p99": cuts[98], "most": max(taken)}


if __name__ == "__main__":
    main()
