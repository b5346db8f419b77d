"""The longest turn of the event loop, in CPU time, while one client asks for a lot.

An engine runs in this process, and each turn of its loop is timed on its thread. So other processes on the
machine hardly change the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import headwater
from bench.generator import Connection
from bench.machine import describe
from bench.servers import nats_server_program
from headwater.engine import LocalEngine

API = "$JS.API"
AT_ONCE = 10_000


class Turns:
    """Times every callback of the event loops in this process, each by the CPU time of its thread."""

    def __init__(self) -> None:
        self._longest_s, self._longest = 0.0, ""
        self._collecting_s = self._collected_s = 0.0
        """When a garbage collection began, and how long the longest took."""
        run = asyncio.Handle._run

        def timed(handle: asyncio.Handle) -> None:
            what, began = getattr(handle._callback, "__self__", handle._callback), time.thread_time()  # type: ignore[attr-defined]
            run(handle)
            took = time.thread_time() - began
            if took > self._longest_s:
                coroutine = what.get_coro() if isinstance(what, asyncio.Task) else what
                self._longest_s, self._longest = (
                    took,
                    getattr(coroutine, "__qualname__", repr(coroutine)[:60]),
                )

        asyncio.Handle._run = timed  # type: ignore[assignment,method-assign]
        gc.callbacks.append(self._collect)

    def _collect(self, phase: str, info: Mapping[str, int]) -> None:
        if phase == "start":
            self._collecting_s = time.thread_time()
        else:
            self._collected_s = max(self._collected_s, time.thread_time() - self._collecting_s)

    @contextmanager
    def shown(self, what: str) -> Iterator[None]:
        """Print the longest turn of a block."""
        self._longest_s, self._longest, self._collected_s = 0.0, "", 0.0
        began = time.perf_counter()
        yield
        took, turn, collection = time.perf_counter() - began, self._longest_s * 1e3, self._collected_s * 1e3
        print(f"{what:<62}{took:>9.2f}{turn:>9.0f}{collection:>9.0f}  {self._longest}", flush=True)


class Client:
    """A client of an engine, which raises what it is refused."""

    def __init__(self, engine: LocalEngine) -> None:
        port = urlsplit(engine.url).port
        assert port is not None
        self._connection = Connection(port)
        self._connection.settimeout(600)

    def ask(self, subject: str, body: Mapping[str, Any]) -> Any:
        """Return the answer of the API; on a busy machine a request may need several attempts."""
        for _ in range(10):
            answer = self._connection.request(f"{API}.{subject}", dict(body))
            if answer.get("error", {}).get("code") != 503:
                break
        assert "error" not in answer, json.dumps(answer)[:300]
        return answer

    def publish(self, count: int, subject: str, subjects: int, headers: bytes = b"") -> None:
        """Publish messages to numbered subjects in turn, and wait for the last."""
        for start in range(0, count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count))
            frames = [_frame(f"{subject}.{n % subjects}.x".encode(), headers) for n in numbers]
            self._connection.send(b"".join(frames))
            self._connection.request(f"{subject}.last", {})

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


def _frame(subject: bytes, headers: bytes) -> bytes:
    if headers:
        return b"HPUB %b %d %d\r\n%b\r\n" % (subject, len(headers), len(headers), headers)
    return b"PUB %b 1\r\nx\r\n" % subject


def consumer(number: int, filters: int) -> dict[str, Any]:
    """Return the request for a consumer with many wildcard filters."""
    subjects = [f"s.{n}.{number}.*.x" for n in range(filters)]
    config = {"durable_name": "MANY", "ack_policy": "explicit", "filter_subjects": subjects}
    return {"stream_name": "WIDE", "config": config}


def measure(turns: Turns, directory: Path, subjects: int, filters: int, consumers: int) -> None:
    """Print the longest turns of each case."""
    with headwater.serve(directory, replicator="submitted") as engine:
        client = Client(engine)
        client.ask("STREAM.CREATE.WIDE", {"name": "WIDE", "subjects": ["s.>"], "max_consumers": -1})
        deep = {"name": "DEEP", "subjects": ["d.>"], "max_msgs_per_subject": 100}
        client.ask("STREAM.CREATE.DEEP", deep)
        client.ask("STREAM.CREATE.SUMS", {"name": "SUMS", "subjects": ["c.>"], "allow_msg_counter": True})
        with turns.shown(f"{subjects:,} messages, each on its own subject"):
            client.publish(subjects, "s", subjects)
        with turns.shown(f"{subjects:,} messages on {subjects // 100:,} subjects"):
            client.publish(subjects, "d", subjects // 100)
        increment = b"NATS/1.0\r\nNats-Incr: 1\r\n\r\n"
        client._connection.send(
            b"".join(_frame(b"c.%d.x" % n, increment) for n in range(min(subjects, 20_000)))
        )
        with turns.shown("folds and checkpoints"):
            time.sleep(8)
        with turns.shown("STREAM.INFO with counts of s.*.x"):
            client.ask("STREAM.INFO.WIDE", {"subjects_filter": "s.*.x"})
        few = {
            "stream_name": "WIDE",
            "config": {"durable_name": "FEW", "filter_subject": "s.*.x", "ack_policy": "explicit"},
        }
        with turns.shown("a consumer of s.*.x"):
            client.ask("CONSUMER.DURABLE.CREATE.WIDE.FEW", few)
        for number, what in enumerate(("created", "changed")):
            with turns.shown(f"a consumer with {filters:,} wildcard filters is {what}"):
                client.ask("CONSUMER.DURABLE.CREATE.WIDE.MANY", consumer(number, filters))
        with turns.shown("max_msgs_per_subject is lowered from 100 to 70"):
            client.ask("STREAM.UPDATE.DEEP", deep | {"max_msgs_per_subject": 70})
        with turns.shown("max_msgs_per_subject is lowered to 5"):
            client.ask("STREAM.UPDATE.DEEP", deep | {"max_msgs_per_subject": 5})
        with turns.shown("a purge of s.*.x that keeps 10"):
            client.ask("STREAM.PURGE.DEEP", {"filter": "d.*.x", "keep": 10})
        for number in range(consumers):
            config = {"durable_name": f"C{number}", "filter_subject": f"s.{number}.*", "ack_policy": "none"}
            client.ask(f"CONSUMER.DURABLE.CREATE.WIDE.C{number}", {"stream_name": "WIDE", "config": config})
        client.close()
    with turns.shown(f"start, with {filters:,} filters and {consumers:,} consumers"):
        engine = headwater.serve(directory, replicator="submitted").start()
    try:
        client = Client(engine)
        with turns.shown("increments of counters in the table"):
            client._connection.send(
                b"".join(_frame(b"c.%d.x" % n, increment) for n in range(min(subjects, 20_000)))
            )
            client.ask("STREAM.INFO.SUMS", {})
        with turns.shown("the consumer with many filters is deleted"):
            client.ask("CONSUMER.DELETE.WIDE.MANY", {})
        client.close()
    finally:
        engine.stop()


def main() -> None:
    """Measure the turns of an engine's loop."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subjects", type=int, default=1_000_000)
    parser.add_argument("--filters", type=int, default=20_000)
    parser.add_argument("--consumers", type=int, default=1000)
    arguments = parser.parse_args()
    print(describe(nats_server_program()))
    print(f"{'':<62}{'seconds':>9}{'turn, ms':>9}{'GC, ms':>9}  of")
    directory = Path(tempfile.mkdtemp(prefix="headwater-bench-"))
    try:
        measure(Turns(), directory, arguments.subjects, arguments.filters, arguments.consumers)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
