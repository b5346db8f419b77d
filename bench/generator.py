"""A publisher on a raw socket: frames built beforehand, a bounded window, every acknowledgement checked."""

from __future__ import annotations

import json
import math
import re
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

WINDOW = 4096
CHUNK = 256
SUBJECTS = 64
INBOX = b"_INBOX.bench"
_SEQ = re.compile(rb'"seq": ?(\d+)')
_ACK_END = b"}\r\n"
_TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Round:
    """What one round of publishing measured."""

    messages: int
    seconds: float
    generator_cpu: float

    @property
    def rate(self) -> float:
        """Return acknowledged messages per second."""
        return self.messages / self.seconds


class Connection:
    """One client connection to a nats-server, used frame by frame."""

    def __init__(self, port: int, inbox: bytes = INBOX) -> None:
        self._inbox = inbox
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._rest = b""
        self.send(b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true}\r\n')
        self.send(b"SUB " + inbox + b".* 1\r\nPING\r\n")
        while b"PONG\r\n" not in self._rest:
            self._rest += self.receive()
        self._rest = b""

    def settimeout(self, seconds: float) -> None:
        """Set the timeout of `receive`."""
        self._socket.settimeout(seconds)

    def fileno(self) -> int:
        """Return the socket's number."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def send(self, data: bytes | memoryview) -> None:
        """Send all of the bytes."""
        self._socket.sendall(data)

    def receive(self) -> bytes:
        """Return the next bytes; a closed or silent connection is an error."""
        data = self._socket.recv(1 << 20)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def receive_acks(self) -> bytes:
        """Return the next whole acknowledgements, and answer the server's pings on the way."""
        while True:
            self._rest += self.receive()
            if b"PING\r\n" in self._rest:
                self._rest = self._rest.replace(b"PING\r\n", b"")
                self.send(b"PONG\r\n")
            if b"-ERR" in self._rest:
                raise RuntimeError(f"the server said {self._rest[:200]!r}")
            end = self._rest.rfind(_ACK_END) + len(_ACK_END)
            if end >= len(_ACK_END):
                acks, self._rest = self._rest[:end], self._rest[end:]
                return acks

    def ask(self, subject: str, body: Mapping[str, Any]) -> None:
        """Send an API request."""
        data = json.dumps(body).encode()
        self.send(b"PUB %s %s.api %d\r\n%s\r\n" % (subject.encode(), self._inbox, len(data), data))

    def request(self, subject: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the JSON answer to an API request."""
        self.ask(subject, body)
        text = b""
        while True:
            text += self.receive()
            while text.startswith(b"PING\r\n"):
                self.send(b"PONG\r\n")
                text = text.removeprefix(b"PING\r\n")
            head, found, rest = text.partition(b"\r\n")
            if found and head.startswith(b"HMSG"):
                raise ConnectionError(f"no responders on {subject}")
            elif found and len(rest) >= (size := int(head.split()[-1])) + 2:
                answer: dict[str, Any] = json.loads(rest[:size])
                return answer


Make = Callable[[int], tuple[bytes, bytes]]
"""Returns subject and payload of the message with a number."""


def frames(size: int, make: Make | None = None, distinct: int = WINDOW) -> tuple[memoryview, int]:
    """Return this many publishes as bytes, and the length of one: all are equally long.

    `make` returns subject and payload of the message with a number among them.
    """
    payload = bytes(i % 251 for i in range(size))
    made = [make(i) if make else (b"bench.%02d" % (i % SUBJECTS), payload) for i in range(distinct)]
    publishes = [
        b"PUB %s %s.%04d %d\r\n%s\r\n" % (subject, INBOX, i % WINDOW, size, data)
        for i, (subject, data) in enumerate(made)
    ]
    return memoryview(b"".join(publishes)), len(publishes[0])


def publish(
    connection: Connection,
    size: int,
    *,
    seconds: float = math.inf,
    messages: float = math.inf,
    make: Make | None = None,
    distinct: int = WINDOW,
) -> Round:
    """Publish so long or so many, at most WINDOW unacknowledged, then wait for the last acknowledgement."""
    block, length = frames(size, make, distinct)
    chunks = [block[i * CHUNK * length : (i + 1) * CHUNK * length] for i in range(distinct // CHUNK)]
    sent = acked = last_seq = 0
    cpu, start = time.process_time(), time.perf_counter()
    deadline = start + seconds
    publishing = True
    while publishing or acked < sent:
        while publishing and sent - acked <= WINDOW - CHUNK:
            connection.send(chunks[sent // CHUNK % len(chunks)])
            sent += CHUNK
            publishing = sent < messages and time.perf_counter() < deadline
        acks = connection.receive_acks()
        last_seq = check_acks(acks, last_seq)
        acked += acks.count(_ACK_END)
    took = time.perf_counter() - start
    assert acked == sent, f"{sent} messages were published but {acked} acknowledged"
    return Round(acked, took, (time.process_time() - cpu) / took)


def check_acks(acks: bytes, last_seq: int) -> int:
    """Refuse anything but acknowledgements with rising sequences; return the last of them."""
    seqs = np.array(_SEQ.findall(acks)).astype(np.int64)
    if len(seqs) != acks.count(_ACK_END) or b'"error"' in acks or b'"duplicate"' in acks:
        raise RuntimeError(f"not every answer is an acknowledgement: {acks[:300]!r}")
    if seqs[0] <= last_seq or not (np.diff(seqs) > 0).all():
        raise RuntimeError(f"sequences do not rise after {last_seq}: {acks[:300]!r}")
    return int(seqs[-1])
