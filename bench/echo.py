"""A fake server that only acknowledges: it shows how fast the generator itself is."""

from __future__ import annotations

import multiprocessing
import socket
from multiprocessing.connection import Connection as Pipe

import numpy as np

from bench.generator import INBOX, frames

_DIGITS = 12
_ACK = b"MSG %s.0000 1 42\r\n" % INBOX + b'{"stream":"BENCH","seq":' + b"0" * _DIGITS + b"     }\r\n"


class Echo:
    """A process that counts the bytes of equal frames and answers as many acknowledgements."""

    def __init__(self, size: int) -> None:
        ours, theirs = multiprocessing.Pipe()
        self._process = multiprocessing.Process(target=_serve, args=(theirs, frames(size)[1]), daemon=True)
        self._process.start()
        self.port: int = ours.recv()

    def stop(self) -> None:
        """End the process."""
        self._process.terminate()
        self._process.join()


def _serve(pipe: Pipe, length: int) -> None:
    """Accept one connection and acknowledge whole frames as they come."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        peer, _ = server.accept()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    greeting = b""
    while not greeting.endswith(b"PING\r\n"):
        greeting += peer.recv(65536)
    peer.sendall(b"PONG\r\n")
    received = acked = 0
    while data := peer.recv(1 << 20):
        received += len(data)
        whole = received // length
        if whole > acked:
            peer.sendall(_acks(acked + 1, whole))
            acked = whole


def _acks(first: int, last: int) -> bytes:
    """Return the acknowledgements of these sequences."""
    seqs = np.arange(first, last + 1)
    rows = np.tile(np.frombuffer(_ACK, np.uint8), (len(seqs), 1))
    start = _ACK.index(b"0" * _DIGITS)
    for place in range(_DIGITS):
        rows[:, start + _DIGITS - 1 - place] = 48 + seqs // 10**place % 10
    return rows.tobytes()
