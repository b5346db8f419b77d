"""How far one upstream has been copied: which origin it was, and its last sequence that is covered."""

from __future__ import annotations

import msgspec


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """A place in an origin; sequence 0 is before its first message."""

    identity: str = ""
    """Tells the origin from another that had or will have its name; empty where nothing was copied yet."""
    seq: int = 0

    def encode(self) -> bytes:
        """Return the cursor as bytes for the target's log."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, encoded: bytes) -> Cursor:
        """Return the cursor that these bytes hold; no bytes are the beginning."""
        return msgspec.msgpack.decode(encoded, type=cls) if encoded else cls()
