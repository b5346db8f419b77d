"""How open reads the segments that a close, a kill or a power failure left."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from headwater.disk import Disk
from headwater.log.batch import HEAD_SIZE
from headwater.log.segment import (
    SEGMENT_HEADER_SIZE,
    STAMP_SIZE,
    Damage,
    Position,
    SegmentHeader,
    read_header,
    scan,
    segment_number,
    segment_path,
)

Headers = dict[int, SegmentHeader | None]


@dataclass(slots=True)
class Recovered:
    """The segments that count."""

    lengths: dict[int, int] = field(default_factory=dict)
    """Number to length, ascending; of every segment but the newest, the length at which it was sealed."""
    highest: int = 0
    """The highest number that was found, void ones included."""
    damage: list[Damage] = field(default_factory=list)
    epoch: int = 0
    """The highest epoch that a header names."""
    is_missing: bool = False
    """Whether no file is there of the segment at which replay starts, nor of a later one."""


def recover(directory: Path, disk: Disk, from_segment: int) -> Recovered:
    """Return the segments from this one on, all durable; remove the others.

    The newest segment ends where its torn tail begins. Nothing is cut: the header of the next segment will
    say where this one ends, so that open needs no room on the disk.
    """
    disk.mkdir(directory)
    found = numbers_in(directory, disk)
    recovered = Recovered(highest=max([from_segment - 1, 0, *found]))
    recovered.is_missing = from_segment > 0 and max(found, default=0) < from_segment
    kept = _of_owners([n for n in found if n >= from_segment], directory, disk)
    length = 0
    while kept and not (length := _settle_newest(directory, disk, kept[-1], recovered.damage)):
        kept.pop()
    headers = {n: read_header(disk, directory, n) for n in kept}
    recovered.epoch = max((header.epoch for header in headers.values() if header), default=0)
    kept = _not_void(kept, headers)
    for number in set(found).difference(kept):
        if kept or number < from_segment:
            disk.remove(segment_path(directory, number))
    disk.sync_dir(directory)
    for number, successor in pairwise(kept):
        recovered.lengths[number] = _sealed_length(directory, disk, number, headers[successor])
    if kept:
        recovered.lengths[kept[-1]] = length
    recovered.damage += _missing(kept, headers, from_segment)
    return recovered


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The segments of a log that another process may be writing, read without changing anything."""

    lengths: dict[int, int]
    """Number to length of the segments that count; of a sealed one, its seal."""
    newest: int
    """The number of the segment that may be appended to, 0 if there is none."""
    damage: list[Damage]


def survey(directory: Path, disk: Disk, from_segment: int, numbers: list[int]) -> Surveyed:
    """Return which of these segments count from this one on.

    The caller lists the segments first and reads the checkpoint that names `from_segment` second. So a
    segment that was trimmed before the listing is below it, and is not taken for a missing one.
    """
    kept = _of_owners([n for n in numbers if n >= from_segment], directory, disk)
    if kept and read_header(disk, directory, kept[-1]) is None:
        kept.pop()  # its header is being written
    headers = {n: read_header(disk, directory, n) for n in kept}
    kept = _not_void(kept, headers)
    lengths = {a: _sealed_length(directory, disk, a, headers[b]) for a, b in pairwise(kept)}
    if kept:
        lengths[kept[-1]] = disk.file_size(segment_path(directory, kept[-1]))
    return Surveyed(lengths, kept[-1] if kept else 0, _missing(kept, headers, from_segment))


def numbers_in(directory: Path, disk: Disk) -> list[int]:
    """Return the numbers of the segments in the directory, ascending."""
    return sorted(n for n in map(segment_number, disk.list(directory)) if n is not None)


def _of_owners(numbers: list[int], directory: Path, disk: Disk) -> list[int]:
    """Return the segments without those that were started by owners that had been fenced by then.

    Epochs only grow. So a segment behind one of a higher epoch was started by an engine that did not know
    yet that it had lost the store: it acknowledged nothing of it, and must not jump over what its successor
    wrote.
    """
    kept: list[int] = []
    epoch = 0
    for number in numbers:
        header = read_header(disk, directory, number)
        if header is None or header.epoch >= epoch:
            kept.append(number)
            epoch = header.epoch if header is not None else epoch
    return kept


def _settle_newest(directory: Path, disk: Disk, number: int, damage: list[Damage]) -> int:
    """Make the segment durable, and return the length that counts, 0 if it was never begun."""
    path = segment_path(directory, number)
    # What a killed process wrote must be durable before anyone relies on it, and what a failed sync of it
    # took back must not be seen.
    disk.sync_file(path)
    disk.uncache(path)
    end, torn = _end(directory, disk, number)
    if end == 0 and read_header(disk, directory, number) is None:
        return 0
    damage += torn
    return max(end, SEGMENT_HEADER_SIZE)


def _end(directory: Path, disk: Disk, number: int) -> tuple[int, list[Damage]]:
    """Return where the last record ends that is whole, 0 if there is none, and what is torn after it.

    A sync returns when all of a record is in the file. So a record that the end of the file cuts off was
    never synced, while one that is there from end to end and does not match its checksum may have been: it
    counts as damaged, and what it held as lost.
    """
    size = disk.file_size(segment_path(directory, number))
    end, torn = 0, []
    for item in scan(disk, directory, number, size):
        position = item.position if isinstance(item, Damage) else item[0]
        if isinstance(item, Damage) and _is_cut(item, size):
            torn.append(replace(item, torn=True))
        else:
            end = position.offset + position.length
            torn.clear()
    return end, torn


def _is_cut(damage: Damage, size: int) -> bool:
    """Return whether the end of the file cuts a record off."""
    start, length = damage.position.offset, damage.position.length
    if damage.base_seq is not None:
        return start + length > size
    return start + length >= size and length < STAMP_SIZE + HEAD_SIZE


def _not_void(numbers: list[int], headers: Headers) -> list[int]:
    """Return the segments that no later header jumps over."""
    kept: list[int] = []
    for number in numbers:
        header = headers[number]
        while header is not None and kept and kept[-1] > header.previous:
            kept.pop()
        kept.append(number)
    return kept


def _sealed_length(directory: Path, disk: Disk, number: int, successor: SegmentHeader | None) -> int:
    """Return the length at which the segment was sealed, or all of it if its seal is lost."""
    if successor is not None and successor.previous == number:
        return successor.sealed
    return disk.file_size(segment_path(directory, number))


def _missing(kept: list[int], headers: Headers, from_segment: int) -> list[Damage]:
    """Return the headers that are lost, and the segments that a header names and that are not there."""
    damage = []
    for number in kept:
        header = headers[number]
        if header is None:
            damage.append(Damage(Position(number, 0, SEGMENT_HEADER_SIZE)))
        elif header.previous not in kept and header.previous >= max(from_segment, 1):
            damage.append(Damage(Position(header.previous, 0, header.sealed)))
    return damage
