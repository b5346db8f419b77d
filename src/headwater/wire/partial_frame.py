"""The bytes of an incomplete frame, kept from one socket read to the next."""

from __future__ import annotations


class PartialFrame:
    """Joins an incomplete frame once it can be complete, so that a long payload is copied once."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        """The parts of an unfinished frame."""
        self._have = 0
        """The size of all parts."""
        self._need = 0
        """How many bytes must be there before it is worth parsing again."""

    def __len__(self) -> int:
        return self._have

    def keep(self, rest: bytes, need: int = 0) -> None:
        """Keep `rest` until `need` bytes have arrived, or until the next read if that is unknown."""
        assert not self._chunks
        if rest:
            self._chunks = [rest]
            self._have = len(rest)
            self._need = need

    def join(self, data: bytes) -> bytes:
        """Return the kept bytes followed by `data`, or nothing while the frame cannot be complete yet."""
        self._chunks.append(data)
        self._have += len(data)
        return b"" if self._have < self._need else self.take()

    def take(self) -> bytes:
        """Return the kept bytes, and clear them."""
        joined = b"".join(self._chunks)
        self._chunks = []
        self._have = self._need = 0
        return joined
