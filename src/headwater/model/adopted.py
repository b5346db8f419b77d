"""A file of copied messages that a stream adopts, with the sums that the stream needs."""

from __future__ import annotations

import msgspec

from headwater.model.copied import Copied


class Adopted(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Sums over the messages of a file; sequences are relative to `base_seq`.

    It is stored in the notes of the log: a new field requires a new version of those (`stream/notes.py`).
    """

    name: str
    """The file's name, the same in the staging directory and in the table."""
    rows: int
    first_offset: int
    last_offset: int
    first_ts: int
    last_ts: int
    payload_bytes: int
    """The bytes of subjects, headers and data of all messages."""
    with_headers: int
    size_bytes: int
    first_subject: str
    last_subject: str
    subjects: dict[bytes, tuple[int, int]]
    """For each subject the number of its messages, and the offset of the newest."""
    gaps: bytes = b""
    """Serialized BitMap64 of the offsets between first and last without a message."""
    base_seq: int = 0
    copied: Copied | None = None
    """For a file that a source's origin wrote: the metadata that the file lacks. The sums include it."""

    @property
    def first_seq(self) -> int:
        """Return the sequence of the first message."""
        return self.base_seq + self.first_offset

    @property
    def last_seq(self) -> int:
        """Return the sequence of the last message."""
        return self.base_seq + self.last_offset

    def behind(self, last_seq: int, last_ts: int, ts: int) -> Adopted:
        """Return the same file with its first message after this sequence and time.

        If it has no time of its own, its time is `ts`.
        """
        placed = msgspec.structs.replace(self, base_seq=last_seq + 1 - self.first_offset)
        if placed.copied is None:
            return placed
        # A table stores times of copies in whole microseconds, and times must not decrease.
        copied = msgspec.structs.replace(placed.copied, micros=max(ts // 1000, -(-last_ts // 1000)))
        return msgspec.structs.replace(placed, copied=copied, first_ts=copied.ts, last_ts=copied.ts)
