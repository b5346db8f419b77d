"""One file of the log: its header, its records, and the scan that finds where intact bytes end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from headwater.checksum import crc32
from headwater.disk import Disk
from headwater.errors import NewerFormatError
from headwater.log.batch import (
    HEAD_SIZE,
    MAGIC,
    MESSAGE_SIZE,
    BatchHeader,
    StoredBatch,
    is_intact,
    read_head,
    require_known,
)

SEGMENT_MAGIC = b"\xf1HWLOG\r\n"
SEGMENT_VERSION = 2
"""Version 1 has no epoch, and its notes no version. An engine that knows only that refuses version 2."""
SEGMENT_HEADER_SIZE = 48
STAMP_SIZE = 4
WINDOW = 1 << 20

_HEADER = Struct("<8sIIQQQ4x")
_PLACE = Struct("<QQQ")
_CRC = Struct("<I")


class Position(NamedTuple):
    """The position of an encoded batch."""

    segment: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Damage:
    """Bytes that are not served; the sequences are those of a batch whose head is intact."""

    position: Position
    torn: bool = False
    """True for a record that the end of the newest segment cuts off: it was never synced."""
    base_seq: int | None = None
    count: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None

    def __str__(self) -> str:
        """Return what a person reads."""
        place, what = self.position, "cut off" if self.torn else "damaged"
        return f"{place.length} bytes at byte {place.offset} of segment {place.segment} are {what}"

    @property
    def most_messages(self) -> int:
        """Return the most messages that these bytes can have held."""
        return max(0, self.position.length - STAMP_SIZE - HEAD_SIZE) // MESSAGE_SIZE


class SegmentHeader(NamedTuple):
    """The start of a segment, which also says where the one before it was sealed."""

    number: int
    previous: int
    sealed: int
    epoch: int = 0
    """Of the engine that wrote the segment; 0 in segments of version 1."""

    def encode(self) -> bytes:
        """Return the header as bytes."""
        fields = _HEADER.pack(
            SEGMENT_MAGIC, SEGMENT_VERSION, self.epoch, self.number, self.previous, self.sealed
        )
        return fields + _CRC.pack(crc32(fields))


def segment_path(directory: Path, number: int) -> Path:
    """Return the path of the segment with this number."""
    return directory / f"{number:020d}.log"


def segment_number(name: str) -> int | None:
    """Return the number of the segment with this file name, None if it is no segment."""
    stem, _, suffix = name.partition(".")
    return int(stem) if suffix == "log" and len(stem) == 20 and stem.isascii() and stem.isdigit() else None


def records(number: int, offset: int, batches: Sequence[bytes]) -> tuple[list[bytes], list[Position]]:
    """Return the bytes to write at this offset for the batches, and the position of each."""
    buffers: list[bytes] = []
    positions: list[Position] = []
    for batch in batches:
        offset += STAMP_SIZE
        position = Position(number, offset, len(batch))
        buffers += (_stamp(position), batch)
        positions.append(position)
        offset += len(batch)
    return buffers, positions


def read_header(disk: Disk, directory: Path, number: int) -> SegmentHeader | None:
    """Return the header of the segment if it is intact; refuse one of a version not known."""
    path = segment_path(directory, number)
    encoded = disk.read(path, 0, SEGMENT_HEADER_SIZE)
    if len(encoded) < SEGMENT_HEADER_SIZE or not encoded.startswith(SEGMENT_MAGIC):
        return None
    if _CRC.unpack_from(encoded, _HEADER.size)[0] != crc32(encoded[: _HEADER.size]):
        return None
    _, version, epoch, stored, previous, sealed = _HEADER.unpack_from(encoded)
    if not 1 <= version <= SEGMENT_VERSION:
        raise NewerFormatError(f"the log segment {path}", version, SEGMENT_VERSION)
    return SegmentHeader(number, previous, sealed, epoch) if stored == number else None


def scan(
    disk: Disk, directory: Path, number: int, end: int
) -> Iterator[tuple[Position, StoredBatch] | Damage]:
    """Yield the batches before `end` in order, and in their place what is damaged."""
    window = _Window(disk, segment_path(directory, number))
    offset = SEGMENT_HEADER_SIZE
    while offset < end:
        head = _head_at(window, number, offset, end)
        if head is None:
            resume = _next_record(window, number, offset + 1, end)
            yield Damage(Position(number, offset, resume - offset))
            offset = resume
            continue
        at = offset + STAMP_SIZE
        encoded = window.read(at, min(head.length, end - at))
        position = Position(number, at, head.length)
        if is_intact(encoded):
            yield position, StoredBatch(encoded)
        else:
            yield Damage(position, False, head.base_seq, head.count, head.first_seq, head.last_seq)
        offset = at + head.length


def _stamp(position: Position) -> bytes:
    """Return what precedes a batch, so that no copy of it in another place is taken for a record."""
    return _CRC.pack(crc32(_PLACE.pack(*position)))


def _head_at(window: _Window, number: int, offset: int, end: int) -> BatchHeader | None:
    """Return the head of the record at this offset if its stamp and the head itself are intact."""
    at = offset + STAMP_SIZE
    if at + HEAD_SIZE > end:
        return None
    encoded = window.read(offset, STAMP_SIZE + HEAD_SIZE)
    head = read_head(encoded[STAMP_SIZE:])
    if head is None or not encoded.startswith(_stamp(Position(number, at, head.length))):
        return None
    require_known(head, window.path)
    return head


def _next_record(window: _Window, number: int, offset: int, end: int) -> int:
    """Return where the next record with an intact stamp and head begins, `end` if there is none."""
    while (magic_at := window.find(MAGIC, offset + STAMP_SIZE, end)) is not None:
        offset = magic_at - STAMP_SIZE
        if _head_at(window, number, offset, end) is not None:
            return offset
        offset += 1
    return end


class _Window:
    """A file read forward in large pieces."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self.path = path
        self._start = 0
        """Where in the file the bytes begin."""
        self._bytes = b""

    def read(self, offset: int, length: int) -> bytes:
        """Return the bytes of this range, fewer where the file ends."""
        self._load(offset, length)
        return self._bytes[offset - self._start : offset - self._start + length]

    def find(self, wanted: bytes, offset: int, end: int) -> int | None:
        """Return the first offset of the wanted bytes between offset and end."""
        while offset + len(wanted) <= end:
            self._load(offset, len(wanted))
            found = self._bytes.find(wanted, offset - self._start, end - self._start)
            if found >= 0:
                return self._start + found
            reached = self._start + len(self._bytes)
            if reached < offset + len(wanted):
                return None
            offset = min(reached, end) - len(wanted) + 1
        return None

    def _load(self, offset: int, length: int) -> None:
        """Load the range into memory."""
        if offset < self._start or offset + length > self._start + len(self._bytes):
            self._bytes = self._disk.read(self.path, offset, max(length, WINDOW))
            self._start = offset
