"""How long other clients wait while one sends very many wildcard filters or demands."""

from __future__ import annotations

import argparse
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.generator import Connection
from bench.machine import describe
from bench.servers import Server, headwater, nats_server_program

STREAM: dict[str, Any] = {"name": "BENCH", "subjects": ["s.>"], "storage": "file"}
DEMANDS = 100


@contextmanager
def probed(server: Server, what: str) -> Iterator[None]:
    """Print how long requests of another client take at most while something is done."""
    done, waits = threading.Event(), list[float]()

    def probe() -> None:
        connection = Connection(server.port, b"_INBOX.probe")
        while not done.is_set():
            began = time.perf_counter()
            connection.request("$JS.API.STREAM.INFO.SMALL", {})
            waits.append(time.perf_counter() - began)
        connection.close()

    prober = threading.Thread(target=probe)
    prober.start()
    began = time.perf_counter()
    try:
        yield
    finally:
        took = time.perf_counter() - began
        done.set()
        prober.join()
    print(f"{what:<52}{took:>9.2f}{max(waits) * 1e3:>18.0f}", flush=True)


def fill(server: Server, subjects: int) -> None:
    """Store one message on each of many subjects."""
    connection = Connection(server.port, b"_INBOX.fill")
    for start in range(0, subjects, 10_000):
        numbers = range(start, min(start + 10_000, subjects) - 1)
        connection.send(b"".join(b"PUB s.%d.%d 1\r\nx\r\n" % (n % 1000, n) for n in numbers))
        connection.request(f"s.last.{start}", {})
    connection.close()


def consumer(number: int, filters: int) -> dict[str, Any]:
    """Return the config of a consumer with many wildcard filters."""
    subjects = [f"s.{n}.{number}.*.x" for n in range(filters)]
    return {"durable_name": "MANY", "ack_policy": "explicit", "filter_subjects": subjects}


def demand(server: Server, *, removing: bool) -> Callable[[], None]:
    """Return a call that publishes with demands on all subjects, of which the engine refuses each."""

    def publish() -> None:
        connection = Connection(server.port, b"_INBOX.demand")
        header = (
            b"NATS/1.0\r\nNats-Expected-Last-Subject-Sequence: 1\r\n"
            b"Nats-Expected-Last-Subject-Sequence-Subject: s.>\r\n\r\n"
        )
        for number in range(DEMANDS):
            if removing:
                connection.send(b"PUB s.kept 1\r\nx\r\n")
            size = len(header)
            reply = b"_INBOX.demand.%d" % number
            connection.send(b"HPUB s.demand %b %d %d\r\n%b\r\n" % (reply, size, size, header))
        left = DEMANDS
        while left:
            left -= connection.receive().count(b"MSG _INBOX.demand.")
        connection.close()

    return publish


def main() -> None:
    """Measure how long the requests of another client take."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subjects", type=int, default=200_000)
    parser.add_argument("--filters", type=int, default=20_000)
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    print(f"{'':<52}{'seconds':>9}{'longest wait, ms':>18}")
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        with headwater(directory) as server:
            connection = Connection(server.port)
            api = "$JS.API"
            for config in (STREAM | {"max_msgs_per_subject": 1}, {"name": "SMALL", "subjects": ["small"]}):
                answer = connection.request(f"{api}.STREAM.CREATE.{config['name']}", config)
                assert "error" not in answer, answer
            fill(server, arguments.subjects)
            with probed(server, "nothing"):
                time.sleep(2)
            for number, what in enumerate(("created", "changed")):
                request = {"stream_name": "BENCH", "config": consumer(number, arguments.filters)}
                with probed(server, f"a consumer with {arguments.filters:,} filters is {what}"):
                    answer = connection.request(f"{api}.CONSUMER.DURABLE.CREATE.BENCH.MANY", request)
                assert "error" not in answer, answer
            with probed(server, "it is deleted"):
                connection.request(f"{api}.CONSUMER.DELETE.BENCH.MANY", {})
            for removing in (False, True):
                how = ", each after a message that removes one" if removing else ""
                with probed(server, f"{DEMANDS} demands of s.>{how}"):
                    demand(server, removing=removing)()
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
