"""A file of copied messages that becomes part of a stream as it is: what the stream must know of it."""

from __future__ import annotations

import msgspec

from headwater.model.copied import Copied


class Adopted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Sums over the messages of a file; sequences are relative to `base_seq`.

    It stands in the notes of the log: a new field is a new version of those (`stream/notes.py`).
    """

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
    copied: Copied | None = None
    """Where a source's origin wrote it: what its messages have here beside that. The sums count it in."""

    @property
    def first_seq(self) -> int:
        """Return the sequence of the first message."""
        return self.base_seq + self.first_offset

    @property
    def last_seq(self) -> int:
        """Return the sequence of the last message."""
        return self.base_seq + self.last_offset

    def behind(self, last_seq: int, last_ts: int, ts: int) -> Adopted:
        """Return the same file with its first message behind this sequence and time.

        Where it has no time of its own, that is `ts`.
        """
        placed = msgspec.structs.replace(self, base_seq=last_seq + 1 - self.first_offset)
        if placed.copied is None:
            return placed
        # A table tells times of copies in whole microseconds, and time does not go backwards.
        copied = msgspec.structs.replace(placed.copied, micros=max(ts // 1000, -(-last_ts // 1000)))
        return msgspec.structs.replace(placed, copied=copied, first_ts=copied.ts, last_ts=copied.ts)
