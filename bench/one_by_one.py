"""One client that waits for each answer before it asks again: what a single request costs."""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from bench import servers
from bench.comparison import RESULTS
from bench.generator import INBOX, Connection
from bench.machine import describe

DEFAULT, SYNCED, HEADWATER = "nats-server", "nats-server, sync always", "headwater"
KEYS = 100
VALUE = bytes(i % 251 for i in range(128))
BUCKET: Mapping[str, Any] = {
    "name": "KV_BENCH",
    "subjects": ["$KV.BENCH.>"],
    "max_msgs_per_subject": 1,
    "discard": "new",
    "allow_rollup_hdrs": True,
    "deny_delete": True,
    "allow_direct": True,
    "duplicate_window": 120_000_000_000,
}
"""As clients create a key-value bucket."""
PLAIN: Mapping[str, Any] = {"name": "PLAIN", "subjects": ["plain"], "duplicate_window": 120_000_000_000}
ACKED_MOST = 20_000


class Caller:
    """A client with one request in flight at a time."""

    def __init__(self, port: int) -> None:
        self._connection = Connection(port)
        self._rest = b""

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def call(self, subject: bytes, data: bytes = b"") -> bytes:
        """Return the answer to a request, its control line included."""
        self._connection.send(b"PUB %b %b.one %d\r\n%b\r\n" % (subject, INBOX, len(data), data))
        return self.next()

    def send(self, subject: bytes, reply: bytes, data: bytes) -> None:
        """Send a request whose answers come to a subject of its own."""
        self._connection.send(b"PUB %b %b %d\r\n%b\r\n" % (subject, reply, len(data), data))

    def next(self) -> bytes:
        """Return the next message, its control line included."""
        while True:
            line, found, rest = self._rest.partition(b"\r\n")
            if found and line == b"PING":
                self._connection.send(b"PONG\r\n")
                self._rest = rest
                continue
            if found:
                assert line.startswith((b"MSG", b"HMSG")), line
                size = int(line.rsplit(b" ", 1)[1]) + 2
                if len(rest) >= size:
                    self._rest = rest[size:]
                    return line + b"\r\n" + rest[:size]
            self._rest += self._connection.receive()

    def api(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to an API request; refuse an error."""
        raw = self.call(f"$JS.API.{subject}".encode(), json.dumps(body).encode())
        answer: dict[str, Any] = json.loads(raw.split(b"\r\n", 1)[1])
        if "error" in answer:
            raise SystemExit(f"{subject}: {answer['error']}")
        return answer


def puts(caller: Caller, number: int) -> Iterator[bool]:
    """Put one value after the other into a key-value bucket."""
    if not number:
        caller.api("STREAM.CREATE.KV_BENCH", BUCKET)
    while True:
        for key in range(KEYS):
            yield b'"seq"' in caller.call(b"$KV.BENCH.k%d" % key, VALUE)


def gets(caller: Caller, _: int) -> Iterator[bool]:
    """Get one value after the other from it, as clients do: the last message of a subject."""
    while True:
        for key in range(KEYS):
            yield VALUE in caller.call(b"$JS.API.DIRECT.GET.KV_BENCH.$KV.BENCH.k%d" % key)


def publishes(caller: Caller, number: int) -> Iterator[bool]:
    """Publish one message after the other to a stream."""
    if not number:
        caller.api("STREAM.CREATE.PLAIN", PLAIN)
    while True:
        yield b'"seq"' in caller.call(b"plain", VALUE)


def double_acks(caller: Caller, number: int) -> Iterator[bool]:
    """Acknowledge one message after the other, and wait for each confirmation."""
    name = f"acks{number}"
    config = {"durable_name": name, "ack_policy": "explicit", "max_ack_pending": -1}
    caller.api(f"CONSUMER.CREATE.PLAIN.{name}", {"stream_name": "PLAIN", "config": config})
    state = caller.api("STREAM.INFO.PLAIN", {})["state"]
    waiting = min(state["messages"], ACKED_MOST)
    request = json.dumps({"batch": waiting, "no_wait": True}).encode()
    caller.send(f"$JS.API.CONSUMER.MSG.NEXT.PLAIN.{name}".encode(), INBOX + b".pull", request)
    # A delivery's control line names the subject of its acknowledgement where others name a reply.
    acks = [caller.next().split(b" ", 4)[3] for _ in range(waiting)]
    yield True
    for ack in acks:
        yield INBOX in caller.call(ack, b"+ACK")


def creations(caller: Caller, number: int) -> Iterator[bool]:
    """Create one stream after the other."""
    made = 0
    while True:
        made += 1
        name = f"S{number}_{made}"
        yield "config" in caller.api(f"STREAM.CREATE.{name}", {"name": name, "subjects": [name.lower()]})


CASES: dict[str, Callable[[Caller, int], Iterator[bool]]] = {
    "key-value put": puts,
    "key-value get (direct)": gets,
    "publish": publishes,
    "double ack": double_acks,
    "stream creation": creations,
}


def rate(port: int, run: Callable[[Caller, int], Iterator[bool]], number: int, seconds: float) -> float:
    """Return how many requests per second were answered, one after the other."""
    caller = Caller(port)
    try:
        answers = run(caller, number)
        assert next(answers), "the first request was refused"
        done, start = 0, time.perf_counter()
        while (now := time.perf_counter()) - start < seconds:
            answer = next(answers, None)
            if answer is None:
                break
            assert answer, "a request was refused"
            done += 1
        return done / (now - start)
    finally:
        caller.close()


def main() -> None:
    """Run every case on every server in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--case", default="", help="only cases whose name has this in it")
    arguments = parser.parse_args()
    machine = describe(servers.nats_server_program())
    print(f"{machine}\none client, one request at a time, median of {arguments.rounds} interleaved rounds")
    figures: dict[str, Any] = {"machine": machine}
    with ExitStack() as stack:
        top = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="headwater-bench-")))
        ports = {
            DEFAULT: stack.enter_context(servers.nats_server(top / "default")).port,
            SYNCED: stack.enter_context(servers.nats_server(top / "synced", "always")).port,
            HEADWATER: stack.enter_context(servers.headwater(top / "headwater")).port,
        }
        print(f"\n{'requests/s':<24}" + "".join(f"{name:>26}" for name in ports) + f"{'of synced':>12}")
        for name, run in CASES.items():
            # Gets and acknowledgements need what the cases before them have stored.
            if arguments.case not in name and run in (gets, double_acks, creations):
                continue
            rates: dict[str, list[float]] = {server: [] for server in ports}
            for number in range(arguments.rounds if arguments.case in name else 1):
                for server, port in ports.items():
                    rates[server].append(rate(port, run, number, arguments.seconds))
            middle = {server: median(all_rates) for server, all_rates in rates.items()}
            row = "".join(f"{each:>26,.0f}" for each in middle.values())
            print(f"{name:<24}{row}{middle[HEADWATER] / middle[SYNCED]:>11.2f}x", flush=True)
            figures[name] = {server: round(each) for server, each in middle.items()}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "one_by_one.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
