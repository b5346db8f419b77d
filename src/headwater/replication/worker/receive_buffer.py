"""What a socket has brought and nobody has looked at yet, in one piece of memory."""

from __future__ import annotations

import socket
import ssl
import time

SIZE = 4 << 20
MARGIN = 1024
"""So many bytes before the content, and behind it, are there to be looked at, whatever they are."""
_LITTLE = SIZE // 4
_PAUSE_S = 0.001
_PAUSES = 20
_WOULD_WAIT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ReceiveBuffer:
    """Bytes in the order they came, from `start` to `end` of `memory`."""

    def __init__(self, size: int = SIZE) -> None:
        self.memory = bytearray(MARGIN + size + MARGIN)
        self.start = self.end = MARGIN

    def __len__(self) -> int:
        return self.end - self.start

    def receive(self, connected: socket.socket, timeout_s: float) -> bool:
        """Wait for bytes and take what one read brings; False if the other side has closed the connection."""
        self._make_room()
        connected.settimeout(timeout_s)
        return self._read(connected)

    def drain(self, connected: socket.socket) -> None:
        """Take what has come already, and while it is little, what comes in a moment.

        To look at a few bytes takes almost as long as to look at many.
        """
        connected.settimeout(0)
        before, pauses = -1, 0
        while self._room:
            try:
                if not self._read(connected):
                    return
            except _WOULD_WAIT:
                if len(self) >= _LITTLE or len(self) == before or pauses == _PAUSES:
                    return
                before, pauses = len(self), pauses + 1
                time.sleep(_PAUSE_S)

    def take(self) -> bytes:
        """Return all of it, and have none of it any more."""
        taken = bytes(memoryview(self.memory)[self.start : self.end])
        self.start = self.end = MARGIN
        return taken

    def put_back(self, data: bytes) -> None:
        """Have bytes that come before all others."""
        self._have(data + self.take())

    @property
    def _room(self) -> int:
        return len(self.memory) - MARGIN - self.end

    def _read(self, connected: socket.socket) -> bool:
        """Take what one read brings."""
        count = connected.recv_into(memoryview(self.memory)[self.end :], self._room)
        self.end += count
        return count > 0

    def _make_room(self) -> None:
        """Move what is left to the beginning; have more memory if that is full of it."""
        if self.start > MARGIN or not self._room:
            self._have(self.take())

    def _have(self, content: bytes) -> None:
        if len(content) >= len(self.memory) - 2 * MARGIN:
            self.memory = bytearray(2 * len(content) + 2 * MARGIN)
        self.end = MARGIN + len(content)
        self.memory[MARGIN : self.end] = content
