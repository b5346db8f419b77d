"""Does an engine with 2,000 consumers on one stream, 200 of them pulling, still answer at once?"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path
from statistics import quantiles

from bench import servers
from bench.comparison import RESULTS, fill
from bench.generator import SUBJECTS, Connection, publish
from bench.machine import describe
from bench.subscriber import ACK_SUBJECT, STREAM

PULLERS = 4
BATCH = 100
PAUSE_S = 0.002
_EXPIRES_NS = 30_000_000_000


def declare(port: int, consumers: int) -> float:
    """Make durable consumers, each of one subject; return how long one took in the middle."""
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
            raise SystemExit(f"consumer {number} was refused: {answer['error']}")
    connection.close()
    return (time.perf_counter() - start) / consumers


def pull(port: int, names: range, done: Event, taken: multiprocessing.Queue[int]) -> None:
    """Pull and acknowledge with many consumers on one connection, until told that it is enough."""
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
    """Have consumers pulled from by processes of their own; each tells in the end how much it took."""
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
    """Return how many milliseconds STREAM.INFO took, asked again and again."""
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


def main() -> None:
    """Measure with no consumer, with all of them idle, while some pull, and afterwards."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--consumers", type=int, default=2_000)
    parser.add_argument("--pulling", type=int, default=200)
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=5.0)
    arguments = parser.parse_args()
    machine = describe(servers.nats_server_program())
    print(f"{machine}\n{'STREAM.INFO':<34}{'p50 ms':>10}{'p99 ms':>10}{'most ms':>10}")
    figures: dict[str, dict[str, float]] = {}

    def tell(what: str, taken: list[float]) -> None:
        cuts = quantiles(taken, n=100)
        figures[what] = {"p50_ms": cuts[49], "p99_ms": cuts[98], "most_ms": max(taken)}
        print(f"{what:<34}{cuts[49]:>10.2f}{cuts[98]:>10.2f}{max(taken):>10.2f}")

    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as top:
        with servers.headwater(Path(top)) as server:
            fill(server.port, arguments.messages)
            tell("without consumers", latency(server.port, arguments.seconds))
            each_s = declare(server.port, arguments.consumers)
            tell(f"{arguments.consumers} idle consumers", latency(server.port, arguments.seconds))
            with pulling(server.port, arguments.pulling) as taken:
                tell(f"{arguments.pulling} pulling", latency(server.port, arguments.seconds))
            deliveries = sum(taken.get() for _ in range(PULLERS))
            connection = Connection(server.port)
            rate = publish(connection, 128, seconds=1.0).rate
            connection.close()
            tell("afterwards", latency(server.port, arguments.seconds))
    print(
        f"a consumer was made in {each_s * 1e3:.1f} ms; {deliveries:,} messages were fetched and "
        f"acknowledged meanwhile; with all consumers declared {rate:,.0f} msg/s are published"
    )
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "consumers.json").write_text(
        json.dumps({"machine": machine, "latency": figures}, indent=2) + "\n"
    )


if __name__ == "__main__":
    main()
