"""A stream cut into pieces that Spark reads side by side: files of its table, and ranges asked of its API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyroaring import BitMap64

from headwater.objects.address import BucketAddress
from headwater.table.datafile import DataFile


@dataclass(frozen=True)
class StreamSnapshot:
    """What a stream holds at one moment: the live sequences, and those of them that lie in files."""

    first_seq: int
    last_seq: int
    files: tuple[DataFile, ...] = ()
    """Ascending; rows beyond the live sequences are left out when they are read."""
    removed: BitMap64 | None = None
    """Sequences between the first and the last that hold no message; None where nobody was asked."""
    asked: bool = True
    """Whether what no file holds can be asked of the API."""
    bucket: BucketAddress | None = None
    """Where the files are, if not on the disk."""

    def within(self, start_seq: int, stop_seq: int) -> StreamSnapshot:
        """Return the part between two sequences, both included."""
        first, last = max(self.first_seq, start_seq), min(self.last_seq, stop_seq)
        return replace(self, first_seq=first, last_seq=last)


@dataclass(frozen=True)
class Piece:
    """A range of sequences to be read at one go: of a file, or through the API where there is none."""

    first_seq: int
    last_seq: int
    file: DataFile | None = None
    """Its path is absolute, or a key in the bucket."""
    removed: bytes = b""
    """Serialized BitMap64 of the sequences of the file that hold no message any more."""
    bucket: BucketAddress | None = None
    """Where the file is, if not on the disk; credentials come from the environment of whoever reads."""


def pieces_of(extent: StreamSnapshot, messages_per_piece: int) -> list[Piece]:
    """Return pieces that hold every live message once, in ascending order."""
    assert messages_per_piece > 0
    pieces: list[Piece] = []
    next_seq = extent.first_seq
    for file in extent.files:
        first, last = max(file.first_seq, next_seq), min(file.last_seq, extent.last_seq)
        if first > last:
            continue
        pieces += _asked(extent, next_seq, first - 1, messages_per_piece)
        gone = _removed_between(extent.removed, first, last)
        if len(gone) <= last - first:
            pieces.append(Piece(first, last, file, gone.serialize() if gone else b"", extent.bucket))
        next_seq = last + 1
    return pieces + list(_asked(extent, next_seq, extent.last_seq, messages_per_piece))


def _asked(extent: StreamSnapshot, first_seq: int, last_seq: int, messages: int) -> Iterator[Piece]:
    """Yield what no file holds, in ranges of a bounded length; a range of removed messages alone is none."""
    if not extent.asked:
        return
    for first in range(first_seq, last_seq + 1, messages):
        last = min(first + messages - 1, last_seq)
        if len(_removed_between(extent.removed, first, last)) <= last - first:
            yield Piece(first, last)


def _removed_between(removed: BitMap64 | None, first_seq: int, last_seq: int) -> BitMap64:
    if not removed or not removed.range_cardinality(first_seq, last_seq + 1):
        return BitMap64()
    return removed & BitMap64(range(first_seq, last_seq + 1))


def ordered(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    """Return files as an extent wants them."""
    return tuple(sorted(files, key=lambda file: file.first_seq))
