"""The bytes that a socket has received and that are not parsed yet, in one block of memory."""

from __future__ import annotations

import socket
import ssl
import time

SIZE = 4 << 20
MARGIN = 1024
"""How many bytes before and after the content may be read safely, whatever they contain."""
_LITTLE = SIZE // 4
"""Below this much content it pays to wait a moment for more."""
_PAUSE_S = 0.001
_PAUSES = 20
_WOULD_WAIT = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class ReceiveBuffer:
    """Received bytes in order, from `start` to `end` of `memory`."""

    def __init__(self, size: int = SIZE) -> None:
        self.memory = bytearray(MARGIN + size + MARGIN)
        self.start = self.end = MARGIN

    def __len__(self) -> int:
        return self.end - self.start

    def receive(self, connected: socket.socket, timeout_s: float) -> bool:
        """Wait for bytes and receive one read's worth; False if the peer has closed the connection."""
        self._make_room()
        connected.settimeout(timeout_s)
        return self._read(connected)

    def drain(self, connected: socket.socket) -> None:
        """Receive what has arrived already, and, while it is little, what arrives within a moment.

        Parsing a few bytes takes almost as long as parsing many.
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
        """Return the content, and empty the buffer."""
        taken = bytes(memoryview(self.memory)[self.start : self.end])
        self.start = self.end = MARGIN
        return taken

    def put_back(self, data: bytes) -> None:
        """Put bytes in front of the content."""
        self._have(data + self.take())

    @property
    def _room(self) -> int:
        return len(self.memory) - MARGIN - self.end

    def _read(self, connected: socket.socket) -> bool:
        """Receive one read's worth."""
        count = connected.recv_into(memoryview(self.memory)[self.end :], self._room)
        self.end += count
        return count > 0

    def _make_room(self) -> None:
        """Move the content to the beginning; allocate more memory if that is full."""
        if self.start > MARGIN or not self._room:
            self._have(self.take())

    def _have(self, content: bytes) -> None:
        if len(content) >= len(self.memory) - 2 * MARGIN:
            self.memory = bytearray(2 * len(content) + 2 * MARGIN)
        self.end = MARGIN + len(content)
        self.memory[MARGIN : self.end] = content
