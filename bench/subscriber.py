"""Clients on a raw socket that receive messages: an ordered replay, and batches that are acknowledged."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from bench.generator import INBOX, Connection

STREAM = "BENCH"
ACK_SUBJECT = re.compile(rb"\$JS\.ACK\.[^ ]+")
_FLOW = re.compile(rb" (\$JS\.FC\.[^ ]+) \d+ \d+\r\n")
_DELIVERED = b"$JS.ACK."
_EXPIRES_NS = 30_000_000_000


@dataclass(frozen=True)
class Taken:
    """What one round of taking deliveries measured."""

    messages: int
    seconds: float
    client_cpu: float

    @property
    def rate(self) -> float:
        """Return messages per second."""
        return self.messages / self.seconds


class Deliveries:
    """Whole frames of a socket, and the check that no delivery is missing or comes twice."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rest = b""
        self.count = 0

    def next(self) -> bytes:
        """Return the next bytes that end with a line; each delivery in them is counted and checked."""
        while True:
            self._rest += self._connection.receive()
            # The payload holds no line end, so that no control line is cut in two.
            end = self._rest.rfind(b"\r\n") + 2
            if end > 1:
                break
        data, self._rest = self._rest[:end], self._rest[end:]
        if b"PING\r\n" in data:
            self._connection.send(b"PONG\r\n")
        if b"-ERR" in data:
            raise RuntimeError(f"the server said {data[:200]!r}")
        self._check(data)
        return data

    def _check(self, data: bytes) -> None:
        delivered = data.count(_DELIVERED)
        if not delivered:
            return
        self.count += delivered
        last = data[data.rfind(_DELIVERED) :].split(b" ", 1)[0].split(b".")
        count, stream_seq, consumer_seq = int(last[4]), int(last[5]), int(last[6])
        if (count, stream_seq, consumer_seq) != (1, self.count, self.count):
            raise RuntimeError(f"{b'.'.join(last)!r} is the delivery number {self.count}")


def replay(connection: Connection, messages: int, name: str) -> Taken:
    """Have an ordered consumer send the whole stream, answering its flow control."""
    # Subscribed by its own name: for nats-server a wildcard is no interest.
    inbox = f"{INBOX.decode()}.to.{name}"
    connection.send(b"SUB %b 2\r\n" % inbox.encode())
    config = {
        "name": name,
        "deliver_subject": inbox,
        "ack_policy": "none",
        "max_deliver": 1,
        "flow_control": True,
        "idle_heartbeat": 5_000_000_000,
        "mem_storage": True,
        "num_replicas": 1,
        "inactive_threshold": 60_000_000_000,
    }
    body = {"stream_name": STREAM, "config": config}
    cpu, start = time.process_time(), time.perf_counter()
    # The answer comes with the first messages, in any order: it is left to them to show that it was no error.
    connection.ask(f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}", body)
    deliveries = Deliveries(connection)
    while deliveries.count < messages:
        data = deliveries.next()
        if b"$JS.FC." in data:
            connection.send(b"".join(b"PUB %b 0\r\n\r\n" % subject for subject in _FLOW.findall(data)))
    took = time.perf_counter() - start
    return Taken(messages, took, (time.process_time() - cpu) / took)


def fetch(connection: Connection, messages: int, name: str, batch: int) -> Taken:
    """Pull the whole stream batch by batch and acknowledge every message."""
    config = {"durable_name": name, "ack_policy": "explicit", "max_ack_pending": 2 * batch}
    body = {"stream_name": STREAM, "config": config}
    answer = connection.request(f"$JS.API.CONSUMER.CREATE.{STREAM}.{name}", body)
    if "error" in answer:
        raise SystemExit(f"the consumer was refused: {answer['error']}")
    deliveries = Deliveries(connection)
    cpu, start = time.process_time(), time.perf_counter()
    asked = 0
    while deliveries.count < messages:
        if deliveries.count == asked:
            wanted = min(batch, messages - asked)
            connection.ask(
                f"$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}", {"batch": wanted, "expires": _EXPIRES_NS}
            )
            asked += wanted
        subjects = ACK_SUBJECT.findall(deliveries.next())
        connection.send(b"".join([b"PUB %b 0\r\n\r\n" % subject for subject in subjects]))
    _await_acknowledged(connection, messages, name)
    took = time.perf_counter() - start
    return Taken(messages, took, (time.process_time() - cpu) / took)


def _await_acknowledged(connection: Connection, messages: int, name: str) -> None:
    """Return once the server has taken every acknowledgement."""
    while True:
        info = connection.request(f"$JS.API.CONSUMER.INFO.{STREAM}.{name}", {})
        if info["ack_floor"]["stream_seq"] == messages and not info["num_ack_pending"]:
            return
        time.sleep(0.001)
