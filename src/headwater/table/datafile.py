"""A Parquet file of messages: its content, and the same file placed in a stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

import msgspec

from headwater.model.adopted import Adopted
from headwater.model.copied import Copied


@dataclass(frozen=True, slots=True)
class FileContent:
    """What a file holds, in whatever stream it is: the bounds and counts of its rows.

    The writer, a commit, the log and a scan of the bytes each describe a file with this value.
    """

    rows: int
    first_offset: int
    last_offset: int
    first_ts: int
    last_ts: int
    first_subject: str | None
    """The least subject as the file stores it; None if it is not known, like the two fields below."""
    last_subject: str | None
    headerless_rows: int | None
    size_bytes: int

    @classmethod
    def of_adopted(cls, adopted: Adopted) -> FileContent:
        """Return the content of an adopted file as its writer described it.

        The sums of an adopted file include what the copy adds. The file itself has the origin's times.
        """
        written = adopted.copied or adopted
        return cls(
            adopted.rows,
            adopted.first_offset,
            adopted.last_offset,
            written.first_ts,
            written.last_ts,
            adopted.first_subject,
            adopted.last_subject,
            adopted.rows - written.with_headers,
            adopted.size_bytes,
        )


@dataclass(frozen=True, slots=True)
class DataFile:
    """A finished file; `first_ts` and `last_ts` bound its timestamps to the microsecond outwards."""

    path: str
    base_seq: int
    rows: int
    first_seq: int
    last_seq: int
    size_bytes: int
    first_ts: int
    last_ts: int
    first_subject: str | None = None
    last_subject: str | None = None
    headerless_rows: int | None = None
    """Rows of the file that have no headers."""
    copied: Copied | None = None
    """For a linked file of a source's origin: the header and times that its messages have here."""

    def __post_init__(self) -> None:
        assert self.rows > 0
        assert self.base_seq <= self.first_seq
        assert self.rows <= self.last_seq - self.first_seq + 1

    @classmethod
    def of(cls, path: str, base_seq: int, content: FileContent, copied: Copied | None = None) -> DataFile:
        """Return a file with this content, placed in a stream; times are widened to whole microseconds.

        `copied` names the origin of a source's linked file. The content's times are then those of the origin.
        """
        first_ts, last_ts = content.first_ts // 1000 * 1000, content.last_ts // 1000 * 1000 + 999
        if copied is not None:
            with_headers = content.rows - (content.headerless_rows or 0)
            copied = msgspec.structs.replace(
                copied, first_ts=first_ts, last_ts=last_ts, with_headers=with_headers
            )
            first_ts = last_ts = copied.ts
        return cls(
            path=path,
            base_seq=base_seq,
            rows=content.rows,
            first_seq=base_seq + content.first_offset,
            last_seq=base_seq + content.last_offset,
            size_bytes=content.size_bytes,
            first_ts=first_ts,
            last_ts=last_ts,
            first_subject=content.first_subject,
            last_subject=content.last_subject,
            headerless_rows=content.headerless_rows,
            copied=copied,
        )

    def at(self, base_seq: int, path: str) -> DataFile:
        """Return the same file at another path, with its offsets counted from another base."""
        first_seq = self.first_seq - self.base_seq + base_seq
        last_seq = self.last_seq - self.base_seq + base_seq
        return replace(self, path=path, base_seq=base_seq, first_seq=first_seq, last_seq=last_seq)

    def overlaps(self, other: DataFile) -> bool:
        """Return whether the sequence ranges of the two files overlap."""
        return self.first_seq <= other.last_seq and other.first_seq <= self.last_seq
