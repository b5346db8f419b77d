"""nats-server and Headwater side by side on the same stream: interleaved rounds, medians, the ratio."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from bench import servers
from bench.generator import Connection, publish
from bench.machine import describe
from bench.subscriber import STREAM, Taken

NATS_SERVER, HEADWATER = "nats-server", "headwater"
SIZE = 128
CONFIG = {"name": STREAM, "subjects": ["bench.*"], "storage": "file", "retention": "limits"}
RESULTS = Path(__file__).parent / "results"

Take = Callable[[Connection, int, str], Taken]


def compare(what: str, take: Take, messages: int, rounds: int) -> None:
    """Fill a stream on each server, run the rounds in turn, print a row for each, and save the figures."""
    machine = describe(servers.nats_server_program())
    print(f"{machine}\n{what}, {SIZE} B, median of {rounds} interleaved rounds on loopback")
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-")))
        ports = {
            NATS_SERVER: stack.enter_context(servers.nats_server(top / "nats-server")).port,
            HEADWATER: stack.enter_context(servers.headwater(top / "headwater")).port,
        }
        filled = {name: fill(port, messages) for name, port in ports.items()}
        runs: dict[str, list[Taken]] = {name: [] for name in ports}
        for number in range(rounds):
            for name, port in ports.items():
                runs[name].append(_round(port, take, filled[name], f"round{number}"))
    _print(runs)
    figures = {name: median(run.rate for run in done) for name, done in runs.items()}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{take.__name__}.json"
    path.write_text(
        json.dumps({"machine": machine, "what": what, "msgs_per_second": figures}, indent=2) + "\n"
    )


def fill(port: int, messages: int) -> int:
    """Publish that many messages into a new stream, and return how many it holds."""
    connection = Connection(port)
    try:
        answer = connection.request(f"$JS.API.STREAM.CREATE.{STREAM}", CONFIG)
        if "error" in answer:
            raise SystemExit(f"the stream was refused: {answer['error']}")
        return publish(connection, SIZE, messages=messages).messages
    finally:
        connection.close()


def _round(port: int, take: Take, messages: int, name: str) -> Taken:
    connection = Connection(port)
    try:
        return take(connection, messages, name)
    finally:
        connection.request(f"$JS.API.CONSUMER.DELETE.{STREAM}.{name}", {})
        connection.close()


def _print(runs: dict[str, list[Taken]]) -> None:
    reference = median(run.rate for run in runs[NATS_SERVER])
    print(
        f"\n{'':<14}"
        + "".join(f"{heading:>12}" for heading in ("msg/s", "ratio", "lowest", "highest", "client"))
    )
    for name, done in runs.items():
        rates = [run.rate for run in done]
        busy = median(run.client_cpu for run in done)
        print(
            f"{name:<14}{median(rates):>12,.0f}{median(rates) / reference:>11.2f}x"
            f"{min(rates):>12,.0f}{max(rates):>12,.0f}{busy:>12.0%}"
        )
