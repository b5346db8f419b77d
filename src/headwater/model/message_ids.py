"""The ids of the messages in a file that a stream adopts, as its log records them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
import numpy as np


class MessageIds(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The id of each message in the order of the file; an empty one is none.

    It is stored in the notes of the log: a new field requires a new version of those (`stream/notes.py`).
    """

    ts: int
    """When the duplicate window begins for these ids."""
    lengths: bytes
    """Of each id, as unsigned numbers of four bytes, little endian."""
    joined: bytes

    @classmethod
    def of(cls, ids: Sequence[bytes], ts: int = 0) -> MessageIds:
        """Return these ids."""
        return cls(ts, np.fromiter(map(len, ids), "<u4", len(ids)).tobytes(), b"".join(ids))

    @classmethod
    def of_last(cls, rows: int, message_id: bytes) -> MessageIds:
        """Return the id of the last of some messages, and none for the others."""
        return cls(0, bytes(4 * (rows - 1)) + len(message_id).to_bytes(4, "little"), message_id)

    @property
    def last(self) -> bytes:
        """Return the id of the last message."""
        length = int.from_bytes(self.lengths[-4:], "little")
        return self.joined[len(self.joined) - length :]

    def values(self) -> Iterator[bytes]:
        """Yield the id of each message."""
        start = 0
        for end in np.cumsum(np.frombuffer(self.lengths, "<u4"), dtype=np.int64).tolist():
            yield self.joined[start:end]
            start = end
