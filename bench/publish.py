"""Publish throughput of nats-server, of nats-server synced, and of Headwater, in one run with the ratios."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench import servers
from bench.echo import Echo
from bench.generator import SUBJECTS, WINDOW, Connection, Make, Round, publish
from bench.machine import describe

DEFAULT, SYNCED, HEADWATER = "nats-server", "nats-server, sync always", "headwater"
STREAM = {"name": "BENCH", "subjects": ["bench.*"], "storage": "file", "retention": "limits"}
RESULTS = Path(__file__).parent / "results" / "publish.json"


def measure(port: int, size: int, seconds: float, make: Make | None = None) -> Round:
    """Publish one round to a stream of its own, and check that the stream holds what was acknowledged.

    `make` returns subject and payload of a message; otherwise all payloads are the same.
    """
    connection = Connection(port)
    try:
        _answer(connection, "$JS.API.STREAM.CREATE.BENCH", STREAM)
        result = publish(connection, size, seconds=seconds, make=make)
        held = _answer(connection, "$JS.API.STREAM.INFO.BENCH", {})["state"]["messages"]
        if held != result.messages:
            raise SystemExit(f"{result.messages} messages were acknowledged, the stream holds {held}")
        _answer(connection, "$JS.API.STREAM.DELETE.BENCH", {})
        return result
    finally:
        connection.close()


def ceiling(size: int, seconds: float) -> Round:
    """Publish one round to a server that does nothing but acknowledge."""
    echo = Echo(size)
    try:
        connection = Connection(echo.port)
        result = publish(connection, size, seconds=seconds)
        connection.close()
        return result
    finally:
        echo.stop()


def _answer(connection: Connection, subject: str, body: Mapping[str, object]) -> dict[str, dict[str, int]]:
    """Return the answer to a request that must not fail."""
    answer = connection.request(subject, body)
    if "error" in answer:
        raise SystemExit(f"{subject}: {answer['error']}")
    return answer


def main() -> None:
    """Run the rounds in turn, so that slow moments of the machine affect every server equally."""
    arguments = _arguments()
    machine = describe(servers.nats_server_program())
    print(machine)
    print(
        f"one connection, one file stream, {SUBJECTS} subjects, at most {WINDOW} messages unacknowledged, "
        f"every acknowledgement checked\nmedian of {arguments.rounds} interleaved rounds of "
        f"{arguments.seconds:g} s on loopback"
    )
    results: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-")))
        running = {
            DEFAULT: stack.enter_context(servers.nats_server(top / "default")),
            SYNCED: stack.enter_context(servers.nats_server(top / "synced", "always")),
        }
        if not arguments.without_headwater:
            running[HEADWATER] = stack.enter_context(servers.headwater(top / "headwater"))
        ports = {name: server.port for name, server in running.items()}
        for size in arguments.sizes:
            results[str(size)] = _compare(ports, size, arguments.rounds, arguments.seconds)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps({"machine": machine, "msgs_per_second": results}, indent=2) + "\n")
    print(f"\nwritten to {RESULTS}")


def _compare(ports: dict[str, int], size: int, rounds: int, seconds: float) -> dict[str, float]:
    """Run the rounds of one size, print a row for each server, and return the medians."""
    runs: dict[str, list[Round]] = {name: [] for name in ports}
    for _ in range(rounds):
        for name, port in ports.items():
            runs[name].append(measure(port, size, seconds))
    medians = {name: median(run.rate for run in done) for name, done in runs.items()}
    top = ceiling(size, min(seconds, 1.0))
    headings = ("msg/s", "of default", "of synced", "lowest", "highest", "generator")
    print(f"\n{f'{size} B':<26}" + "".join(f"{heading:>12}" for heading in headings))
    for name, done in runs.items():
        rates = [run.rate for run in done]
        busy = median(run.generator_cpu for run in done)
        print(
            f"{name:<26}{medians[name]:>12,.0f}{medians[name] / medians[DEFAULT]:>11.2f}x"
            f"{medians[name] / medians[SYNCED]:>11.1f}x{min(rates):>12,.0f}{max(rates):>12,.0f}{busy:>12.0%}"
        )
    print(f"{'(the generator alone)':<26}{top.rate:>12,.0f}")
    return {**medians, "generator alone": top.rate}


def _arguments() -> argparse.Namespace:
    """Return the parsed command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="length of a round")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 1024], help="payload bytes")
    parser.add_argument("--without-headwater", action="store_true", help="only nats-server, twice")
    return parser.parse_args()


if __name__ == "__main__":
    main()
