"""What a socket has brought and nobody has looked at yet, so that a server need not wait for its reader."""

from __future__ import annotations

import socket
import ssl
from collections import deque
from collections.abc import Callable

CHUNK_BYTES = 4 << 20
MOST_BYTES = 8 << 20
"""More than that is left with the system, which has the sender wait."""
TAIL_BYTES = 1024


class Backlog:
    """Chunks of bytes in the order they came; each is lent out until the next one is asked for."""

    def __init__(self) -> None:
        self._chunks: deque[tuple[bytearray, int]] = deque()
        self._free: list[bytearray] = []
        self._lent: bytearray | None = None
        self._size = 0
        self.received = 0
        """How many bytes came so far."""
        self._tail = b""
        self._is_cut = True

    def __len__(self) -> int:
        return self._size

    def receive(self, connected: socket.socket, timeout_s: float) -> bool:
        """Wait for bytes and take what one read brings; False if the other side has closed the connection."""
        connected.settimeout(timeout_s)
        return self._read(connected)

    def drain(self, connected: socket.socket, is_cut: Callable[[bytes], bool]) -> None:
        """Take what has come already; `is_cut` sees the last bytes and says whether a chunk ends there."""
        try:
            while True:
                self._is_cut = is_cut(self._tail)
                # Who was asked may have sent something, and waited for that.
                connected.settimeout(0)
                if self._size >= MOST_BYTES or not self._read(connected):
                    return
        except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
            pass

    def take(self) -> memoryview:
        """Return the oldest chunk; the one before it is used again."""
        if self._lent is not None:
            self._free.append(self._lent)
        self._lent, length = self._chunks.popleft()
        self._size -= length
        return memoryview(self._lent)[:length]

    def _read(self, connected: socket.socket) -> bool:
        """Take what one read brings."""
        if self._is_cut or not self._chunks or self._chunks[-1][1] == CHUNK_BYTES:
            self._chunks.append((self._free.pop() if self._free else bytearray(CHUNK_BYTES), 0))
            self._is_cut = False
        chunk, length = self._chunks[-1]
        try:
            count = connected.recv_into(memoryview(chunk)[length:])
        except BaseException:
            self._drop_empty()
            raise
        if not count:
            self._drop_empty()
            return False
        self._chunks[-1] = (chunk, length + count)
        self._size += count
        self.received += count
        self._tail = (self._tail + chunk[max(length + count - TAIL_BYTES, length) : length + count])[
            -TAIL_BYTES:
        ]
        return True

    def _drop_empty(self) -> None:
        """Take back a chunk that nothing was read into."""
        if self._chunks and not self._chunks[-1][1]:
            self._free.append(self._chunks.pop()[0])
