"""A cursor: how far one upstream has been copied, as the origin's identity, its last sequence and time.

    version 1: [identity, sequence]
    version 2: [2, identity, sequence, time]
    version 3: [3, start sequence]

Version 3 records that the cursor was lost with a damaged checkpoint. It contains the start sequence that the
upstream was configured with then, 0 if none.

A cursor without a time is written as version 1, which every release reads.
"""

from __future__ import annotations

import msgspec

from headwater.errors import Error

VERSION = 2
LOST_VERSION = 3
LOST = "\0lost"
"""The identity of a lost cursor; no origin has it."""


class CursorVersionError(Error):
    """A newer release wrote the cursor."""


class Cursor(msgspec.Struct, frozen=True):
    """A position in an origin; sequence 0 is before its first message."""

    identity: str = ""
    """Distinguishes the origin from others of its name; empty if nothing was copied yet."""
    seq: int = 0
    ts: int = 0
    """The latest time of the messages up to it, as the origin reported; 0 if unknown.

    A message at or below the sequence with a later time was stored after the copy: the origin has lost its
    end since, and has grown again.
    """

    def covers(self, seq: int, ts: int) -> bool:
        """Return whether a message of the origin can be one that was copied."""
        return seq <= self.seq and (not self.ts or ts <= self.ts)

    def encode(self) -> bytes:
        """Return the cursor as bytes for the target's log."""
        if self.identity == LOST:
            return msgspec.msgpack.encode((LOST_VERSION, self.seq))
        whole = (VERSION, self.identity, self.seq, self.ts) if self.ts else (self.identity, self.seq)
        return msgspec.msgpack.encode(whole)

    @classmethod
    def decode(cls, encoded: bytes) -> Cursor:
        """Return the cursor that these bytes encode; no bytes are the beginning."""
        if not encoded:
            return cls()
        match msgspec.msgpack.decode(encoded):
            case [str(identity), int(seq)]:
                return cls(identity, seq)
            case [int(version), str(identity), int(seq), int(ts)] if version == VERSION:
                return cls(identity, seq, ts)
            case [int(version), int(seq)] if version == LOST_VERSION:
                return cls(LOST, seq)
        raise CursorVersionError("the cursor was written by a newer release of Headwater, start that one")
