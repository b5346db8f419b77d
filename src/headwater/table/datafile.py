"""One Parquet file of a table, placed in the stream."""

from __future__ import annotations

from dataclasses import dataclass, replace

from headwater.model.copied import Copied


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

    def at(self, base_seq: int, path: str) -> DataFile:
        """Return the same file at another path, with its offsets counted from another base."""
        first_seq = self.first_seq - self.base_seq + base_seq
        last_seq = self.last_seq - self.base_seq + base_seq
        return replace(self, path=path, base_seq=base_seq, first_seq=first_seq, last_seq=last_seq)

    def overlaps(self, other: DataFile) -> bool:
        """Return whether the sequence ranges of the two files overlap."""
        return self.first_seq <= other.last_seq and other.first_seq <= self.last_seq
