"""Bytes inside skippable chunks of an S2 stream, because the `nats` command line reads every backup as S2.

An S2 reader skips chunks of a type from 0x80 to 0xfd, so the archive is sent unchanged in chunks of an unused
type, without being compressed a second time.
"""

from __future__ import annotations

from typing import Protocol

IDENTIFIER = b"\xff\x06\x00\x00S2sTwO"
FOREIGN = (IDENTIFIER, b"\xff\x06\x00\x00sNaPpY")
CHUNK_TYPE = 0xA7
HEAD_SIZE = 4
MAX_CHUNK = (1 << 24) - 1


class Incoming(Protocol):
    """A file of bytes that arrive over time."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes, waiting for the first of them; nothing means the end."""
        ...


def framed(data: bytes) -> bytes:
    """Return the data as skippable chunks."""
    pieces: list[bytes] = []
    for start in range(0, len(data), MAX_CHUNK):
        piece = data[start : start + MAX_CHUNK]
        pieces += (bytes((CHUNK_TYPE,)), len(piece).to_bytes(3, "little"), piece)
    return b"".join(pieces)


class Unframed:
    """The data of skippable chunks; stops at the end of the bytes or at a chunk that is not ours."""

    def __init__(self, incoming: Incoming, head: bytes = b"") -> None:
        self._incoming = incoming
        self._rest = head
        self._left = 0
        """How many bytes of the current chunk are not read yet."""
        self.is_foreign = False
        """Whether a chunk of another kind arrived: the archive is not from Headwater."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes of data; nothing means the end."""
        while not self._left:
            chunk = self._exactly(HEAD_SIZE)
            if len(chunk) < HEAD_SIZE:
                return b""
            if chunk[0] != CHUNK_TYPE:
                self.is_foreign = True
                return b""
            self._left = int.from_bytes(chunk[1:], "little")
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._some(wanted)
        self._left -= len(data)
        return data

    def _some(self, size: int) -> bytes:
        data = self._rest or self._incoming.read(size)
        self._rest = data[size:]
        return data[:size]

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size and (more := self._some(size - len(data))):
            data += more
        return data
