"""Publishing with the head on the disk, in a NATS cluster and in a bucket, side by side; and take-overs."""

from __future__ import annotations

import argparse
import json
import os
import select
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from bench import servers, takeover
from bench.copies import payload
from bench.generator import INBOX, SUBJECTS, Connection, check_acks
from bench.machine import describe
from bench.publish import STREAM, measure
from journal_cluster import journal_cluster
from seaweed import seaweed

LOCAL, JETSTREAM, OBJECTS = "local disk", "JetStream, three replicas", "objects (SeaweedFS)"
CLIENTS = 64
RESULTS = Path(__file__).parent / "results" / "journal.json"


def main() -> None:
    """Run the rounds in turn, so that slow moments of the machine affect every journal equally."""
    arguments = _arguments()
    machine = describe(servers.nats_server_program())
    print(f"{machine}\nmedian of {arguments.rounds} interleaved rounds of {arguments.seconds:g} s")
    results: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        ports = _start(stack)
        for size in arguments.sizes:
            runs: dict[str, list[float]] = {name: [] for name in ports}
            for _ in range(arguments.rounds):
                for name, port in ports.items():
                    runs[name].append(measure(port, size, arguments.seconds, partial(_message, size)).rate)
            results[f"{size} B"] = {name: median(rates) for name, rates in runs.items()}
            _show(f"{size} B, msg/s", results[f"{size} B"])
        waits: dict[str, list[float]] = {name: [] for name in ports}
        rates: dict[str, list[float]] = {name: [] for name in ports}
        for _ in range(arguments.rounds):
            for name, port in ports.items():
                found = one_in_flight(port, arguments.seconds)
                waits[name] += found
                rates[name].append(len(found) / arguments.seconds)
        results["64 clients"] = {name: median(found) for name, found in rates.items()}
        _show(f"{CLIENTS} clients, one message in flight each, msg/s", results["64 clients"])
        middle = {name: 1000 * median(found) for name, found in waits.items()}
        late = {name: 1000 * quantiles(found, n=100)[98] for name, found in waits.items()}
        results["64 clients, p50 ms"], results["64 clients, p99 ms"] = middle, late
        for name in ports:
            print(f"{name:<28}p50 {middle[name]:>8.1f} ms   p99 {late[name]:>8.1f} ms")
    if arguments.takeovers:
        print("\nwithout an acknowledgement after the engine is killed and its directory deleted, s")
        with tempfile.TemporaryDirectory(prefix="headwater-bench-") as directory:
            for name, took in takeover.measure(Path(directory), arguments.takeovers).items():
                results[f"take-over: {name}"] = {"median s": median(took), "longest s": max(took)}
                print(f"{name:<40}median {median(took):>6.1f}   longest {max(took):>6.1f}")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "results": results}, indent=2) + "\n")
    print(f"\nwritten to {RESULTS}")


def _message(size: int, number: int) -> tuple[bytes, bytes]:
    """Return a message with data as applications send it: journals compress what they store."""
    return b"bench.%02d" % (number % SUBJECTS), payload(number, size)


def _start(stack: ExitStack) -> dict[str, int]:
    """Return the ports of three engines, each with tables in a folder and another journal."""
    top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-")))
    cluster = stack.enter_context(journal_cluster())
    objects = stack.enter_context(seaweed())
    os.environ.update(objects.environment)
    bucket = objects.new_bucket()
    endpoint = ("--tables-endpoint", str(bucket.endpoint))
    options = {
        LOCAL: (),
        JETSTREAM: ("--journal", f"{cluster.url}/BENCH"),
        OBJECTS: ("--journal", f"{bucket.url}/journal", *endpoint),
    }
    ports = {}
    for number, (name, more) in enumerate(options.items()):
        tables = ("--tables", f"file://{top}/tables-{number}")
        ports[name] = stack.enter_context(servers.headwater(top / f"{number}", *tables, *more)).port
    return ports


def one_in_flight(port: int, seconds: float) -> list[float]:
    """Return how long each publish waited for its acknowledgement, with 64 clients that wait for theirs."""
    admin = Connection(port)
    admin.request("$JS.API.STREAM.CREATE.BENCH", STREAM)
    clients = [Connection(port, b"%b.c%d" % (INBOX, number)) for number in range(CLIENTS)]
    sent: dict[Connection, float] = {}
    waits: list[float] = []
    until = time.perf_counter() + seconds

    def publish(number: int, client: Connection) -> None:
        client.send(b"PUB bench.%d %b.c%d.x 128\r\n%b\r\n" % (number, INBOX, number, bytes(128)))
        sent[client] = time.perf_counter()

    for number, client in enumerate(clients):
        publish(number, client)
    while sent:
        for client in select.select(list(sent), [], [], 30)[0]:
            check_acks(client.receive_acks(), 0)
            waits.append(time.perf_counter() - sent.pop(client))
            if time.perf_counter() < until:
                publish(clients.index(client), client)
    held = admin.request("$JS.API.STREAM.INFO.BENCH", {})["state"]["messages"]
    if held != len(waits):
        raise SystemExit(f"{len(waits)} messages were acknowledged, the stream holds {held}")
    admin.request("$JS.API.STREAM.DELETE.BENCH", {})
    for client in (admin, *clients):
        client.close()
    return waits


def _show(title: str, medians: dict[str, float]) -> None:
    print(f"\n{title}")
    for name, rate in medians.items():
        print(f"{name:<28}{rate:>12,.0f}{rate / medians[LOCAL]:>9.2f}x")


def _arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a round")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 1024], help="payload bytes")
    parser.add_argument("--takeovers", type=int, default=3, help="rounds of take-overs; 0 leaves them out")
    return parser.parse_args()


if __name__ == "__main__":
    main()
