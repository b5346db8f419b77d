"""What open makes of the segments that a close, a kill or a power cut left behind."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

from headwater.disk import Disk
from headwater.log.segment import (
    SEGMENT_HEADER_SIZE,
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


def recover(directory: Path, disk: Disk, from_segment: int) -> Recovered:
    """Return the segments from this one on, all durable; remove the others and cut the torn tail."""
    disk.mkdir(directory)
    found = _numbers(directory, disk)
    recovered = Recovered(highest=max([from_segment - 1, 0, *found]))
    kept = [n for n in found if n >= from_segment]
    length = 0
    while kept and not (length := _settle_newest(directory, disk, kept[-1], recovered.damage)):
        kept.pop()
    headers = {n: read_header(disk, directory, n) for n in kept}
    kept = _not_void(kept, headers)
    for number in set(found).difference(kept):
        disk.remove(segment_path(directory, number))
    disk.sync_dir(directory)
    for number, successor in pairwise(kept):
        recovered.lengths[number] = _sealed_length(directory, disk, number, headers[successor])
    if kept:
        recovered.lengths[kept[-1]] = length
    recovered.damage += _missing(kept, headers, from_segment)
    return recovered


def _numbers(directory: Path, disk: Disk) -> list[int]:
    """Return the numbers of the segments in the directory, ascending."""
    return sorted(n for n in map(segment_number, disk.list(directory)) if n is not None)


def _settle_newest(directory: Path, disk: Disk, number: int, damage: list[Damage]) -> int:
    """Cut the segment after its last intact batch, and return its durable length, 0 if it was never begun."""
    path = segment_path(directory, number)
    # What a killed process wrote must be durable before anyone relies on it, and what a failed sync of it
    # took back must not be seen.
    disk.sync_file(path)
    disk.uncache(path)
    end, tail = _last_batch_end(directory, disk, number)
    damage += tail
    if end == 0 and read_header(disk, directory, number) is None:
        return 0
    end = max(end, SEGMENT_HEADER_SIZE)
    _truncate(disk, path, end)
    return end


def _truncate(disk: Disk, path: Path, end: int) -> None:
    """Let the file durably end here."""
    file = disk.open_append(path)
    try:
        if file.size > end:
            file.truncate(end)
            file.sync()
    finally:
        file.close()


def _last_batch_end(directory: Path, disk: Disk, number: int) -> tuple[int, list[Damage]]:
    """Return where the last intact batch ends, 0 if there is none, and what is damaged after it."""
    end = 0
    tail: list[Damage] = []
    for item in scan(disk, directory, number, disk.file_size(segment_path(directory, number))):
        if isinstance(item, Damage):
            tail.append(replace(item, torn=True))
        else:
            position, _ = item
            end = position.offset + position.length
            tail.clear()
    return end, tail


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
