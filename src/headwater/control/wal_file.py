"""The write-ahead log of a SQLite file, checked before SQLite opens it.

SQLite uses a write-ahead log up to the first frame whose checksum does not match, and ignores the rest: a
power cut leaves such an end. A damaged frame looks the same, and hides every later transaction. Two facts
distinguish them. Each commit is synced before the next transaction begins, so a transaction that others
follow was complete. And each frame's checksum continues the previous one, so a frame after the damage still
proves that it was written there.

    header: magic, version, page size, checkpoint number, 2 salts, 2 checksums        (8 x 4 bytes)
    frame:  page number, pages in the file after a commit or 0, 2 salts, 2 checksums  (6 x 4 bytes), page
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from struct import Struct
from typing import NamedTuple

_MAGIC = 0x377F0682
"""The lowest bit is set if checksums use big-endian words."""
_HEADER = Struct(">8I")
_FRAME = Struct(">6I")
_PAGE_SIZE_AT = 16
_WORDS = 0xFFFFFFFF

Sums = tuple[int, int]


class WalState(StrEnum):
    """The state of a write-ahead log."""

    WHOLE = "whole"
    TORN = "its last transaction is incomplete: a power cut, or damage"
    """SQLite ignores the last transaction. After a power cut no client was answered for it."""
    DAMAGED = "it is damaged, and SQLite would ignore later transactions without an error"


class WalFrame(NamedTuple):
    """One page as a transaction changed it."""

    head: bytes
    page: bytes

    @property
    def is_commit(self) -> bool:
        """Return whether a transaction ends here."""
        return any(self.head[4:8])

    @property
    def salts(self) -> bytes:
        """Return the bytes that distinguish the frames of this log from earlier ones in the file."""
        return self.head[8:16]

    @property
    def sums(self) -> Sums:
        """Return the checksums in the frame."""
        fields = _FRAME.unpack(self.head)
        return fields[4], fields[5]


def wal_path(database: Path) -> Path:
    """Return the path of the write-ahead log of a SQLite file."""
    return database.with_name(database.name + "-wal")


def state_of(database: Path) -> WalState:
    """Return the state of the write-ahead log of a SQLite file that no process has open."""
    path = wal_path(database)
    content = path.read_bytes() if path.exists() else b""
    if len(content) <= _HEADER.size or not any(content):
        return WalState.WHOLE
    if not _is_header(content):
        return WalState.DAMAGED
    big = bool(content[3] & 1)
    frames = list(_frames(content, int.from_bytes(content[8:12])))
    salts, sums = content[16:24], _stored(content)
    for number, frame in enumerate(frames):
        made = _checksum(frame.head[:8] + frame.page, sums, big)
        if frame.salts != salts or frame.sums != made:
            return _state_behind(frames[number:], salts, made, big)
        sums = made
    return WalState.WHOLE


def _state_behind(frames: list[WalFrame], salts: bytes, made: Sums, big: bool) -> WalState:
    """Return the state of a log that SQLite uses up to these frames."""
    ours = frames[0].salts == salts
    seeds, ended = (frames[0].sums, made), frames[0].is_commit and ours
    for frame in frames[1:]:
        sums = [_checksum(frame.head[:8] + frame.page, seed, big) for seed in seeds]
        if frame.salts == salts and frame.sums in sums:
            if ended:
                return WalState.DAMAGED
            ours = True
            ended = frame.is_commit
        seeds = (frame.sums,) * 2
    # A flipped salt of the frame itself: the frame's content still matches its checksum.
    return WalState.TORN if ours or frames[0].sums == made else WalState.WHOLE


def resealed(database: Path) -> bytes:
    """Return the write-ahead log with matching checksums and salts, so that SQLite uses all of it.

    The content of the damaged frame is used unchanged: the caller must check every row.
    """
    content, stored = wal_path(database).read_bytes(), database.read_bytes()[:100]
    size = int.from_bytes(stored[_PAGE_SIZE_AT : _PAGE_SIZE_AT + 2])
    size = 65536 if size == 1 else size
    frames = list(_frames(content, size))
    salts = max({f.salts for f in frames[:3]}, key=[f.salts for f in frames[:3]].count) if frames else b""
    if _is_header(content):
        salts = content[16:24]
    last = max((n for n, frame in enumerate(frames) if frame.salts == salts and frame.is_commit), default=-1)
    head = _HEADER.pack(_MAGIC, 3007000, size, 0, *_halves(salts), 0, 0)[:24] if salts else b""
    sums = _checksum(head, (0, 0), False)
    made = [head, _packed(sums)]
    for frame in frames[: last + 1]:
        sums = _checksum(frame.head[:8] + frame.page, sums, False)
        made += [frame.head[:8], salts, _packed(sums), frame.page]
    return b"".join(made)


def _halves(salts: bytes) -> tuple[int, int]:
    return int.from_bytes(salts[:4]), int.from_bytes(salts[4:])


def _packed(sums: Sums) -> bytes:
    return sums[0].to_bytes(4) + sums[1].to_bytes(4)


def _is_header(content: bytes) -> bool:
    magic = int.from_bytes(content[:4])
    return magic & ~1 == _MAGIC and _checksum(content[:24], (0, 0), bool(magic & 1)) == _stored(content)


def _stored(content: bytes) -> Sums:
    fields = _HEADER.unpack_from(content)
    return fields[6], fields[7]


def _frames(content: bytes, page_size: int) -> Iterator[WalFrame]:
    step = _FRAME.size + page_size
    for at in range(_HEADER.size, len(content) - step + 1, step):
        yield WalFrame(content[at : at + _FRAME.size], content[at + _FRAME.size : at + step])


def _checksum(content: bytes, sums: Sums, big: bool) -> Sums:
    """Return SQLite's checksum of some bytes, continued from the previous one."""
    first, second = sums
    words = Struct(f"{'>' if big else '<'}{len(content) // 4}I").unpack(content)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & _WORDS
        second = (second + two + first) & _WORDS
    return first, second
