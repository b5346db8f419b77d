"""A stream divided into ranges that Spark reads in parallel: files of its table, and ranges of its API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from headwater.objects.address import BucketAddress
from headwater.table.datafile import DataFile


@dataclass(frozen=True)
class StreamSnapshot:
    """A stream at one moment: its live sequences, and the files that contain some of them."""

    first_seq: int
    last_seq: int
    files: tuple[DataFile, ...] = ()
    """Ascending; rows beyond the live sequences are left out when they are read."""
    removed: BitMap64 | None = None
    """Sequences between the first and the last without a message; None if unknown."""
    asked: bool = True
    """Whether messages that are in no file can be read by the API."""
    bucket: BucketAddress | None = None
    """Where the files are, if not on the disk."""

    def within(self, start_seq: int, stop_seq: int) -> StreamSnapshot:
        """Return the part between two sequences, both included."""
        first, last = max(self.first_seq, start_seq), min(self.last_seq, stop_seq)
        return replace(self, first_seq=first, last_seq=last)


@dataclass(frozen=True)
class ReadRange:
    """A range of sequences that one task reads, from a file or by the API."""

    first_seq: int
    last_seq: int
    file: DataFile | None = None
    """Its path is absolute, or a key in the bucket."""
    removed: bytes = b""
    """Serialized BitMap64 of the file's sequences whose messages are removed."""
    bucket: BucketAddress | None = None
    """Where the file is, if not on the disk; credentials come from the environment of the reader."""

    def within(self, first_seq: int, last_seq: int) -> ReadRange:
        """Return the part between two sequences, both included; it may be empty."""
        return replace(self, first_seq=max(self.first_seq, first_seq), last_seq=min(self.last_seq, last_seq))


def ranges_of(extent: StreamSnapshot, messages_per_range: int) -> list[ReadRange]:
    """Return ranges that contain every live message once, in ascending order."""
    assert messages_per_range > 0
    ranges: list[ReadRange] = []
    next_seq = extent.first_seq
    for file in extent.files:
        first, last = max(file.first_seq, next_seq), min(file.last_seq, extent.last_seq)
        if first > last:
            continue
        ranges += _asked(extent, next_seq, first - 1, messages_per_range)
        gone = _removed_between(extent.removed, first, last)
        if len(gone) <= last - first:
            ranges.append(ReadRange(first, last, file, gone.serialize() if gone else b"", extent.bucket))
        next_seq = last + 1
    return ranges + list(_asked(extent, next_seq, extent.last_seq, messages_per_range))


def _asked(extent: StreamSnapshot, first_seq: int, last_seq: int, messages: int) -> Iterator[ReadRange]:
    """Yield ranges of bounded length that are in no file; ranges without live messages are skipped."""
    if not extent.asked:
        return
    for first in range(first_seq, last_seq + 1, messages):
        last = min(first + messages - 1, last_seq)
        if len(_removed_between(extent.removed, first, last)) <= last - first:
            yield ReadRange(first, last)


def _removed_between(removed: BitMap64 | None, first_seq: int, last_seq: int) -> BitMap64:
    if not removed or not removed.range_cardinality(first_seq, last_seq + 1):
        return BitMap64()
    return removed & BitMap64(range(first_seq, last_seq + 1))


def ordered(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Return files in ascending order."""
    return tuple(sorted(files, key=lambda file: file.first_seq))
