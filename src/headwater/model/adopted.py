"""A file of copied messages that becomes part of a stream as it is: what the stream must know of it."""

from __future__ import annotations

import msgspec


class Adopted(msgspec.Struct, frozen=True, array_like=True):
    """Sums over the messages of a file; sequences are relative to `base_seq`."""

    name: str
    """The file's name, the same in the staging directory and in the table."""
    rows: int
    first_offset: int
    last_offset: int
    first_ts: int
    last_ts: int
    payload_bytes: int
    """Subjects, headers and data of all messages together."""
    with_headers: int
    size_bytes: int
    first_subject: str
    last_subject: str
    subjects: dict[bytes, tuple[int, int]]
    """For each subject how many messages stand on it, and the offset of the newest."""
    gaps: bytes = b""
    """Serialized BitMap64 of the offsets between first and last that hold no message."""
    base_seq: int = 0

    @property
    def first_seq(self) -> int:
        """Return the sequence of the first message."""
        return self.base_seq + self.first_offset

    @property
    def last_seq(self) -> int:
        """Return the sequence of the last message."""
        return self.base_seq + self.last_offset

    def at(self, base_seq: int) -> Adopted:
        """Return the same file at another place in the stream."""
        return msgspec.structs.replace(self, base_seq=base_seq)
