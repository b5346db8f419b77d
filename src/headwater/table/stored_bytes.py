"""The bytes of one finished file, on the disk or in a bucket."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple, Protocol

from headwater.checksum import crc32
from headwater.objects.objects import Objects

_TAIL_BYTES = 8
_LIKELY_FOOTER = 64 << 10
"""A request costs more than the bytes of it: most footers are shorter than this."""
_GAP_BYTES = 8 << 10
"""Unwanted bytes between two ranges that are read with them, instead of with another request."""
_AT_ONCE = 4
"""How many ranges of a file are requested at a time."""


class ByteSpan(NamedTuple):
    """A range of a file, and the checksum of its bytes."""

    start: int
    length: int
    crc: int


class StoredBytes(Protocol):
    """A finished file, which never changes; a file that is gone raises OSError or ObjectError."""

    @property
    def name(self) -> str:
        """Return the name of the file for messages."""
        ...

    @property
    def first_tail(self) -> int:
        """Return how many bytes at the end are best read at once to find the footer."""
        ...

    def tail(self, length: int) -> tuple[bytes, int]:
        """Return the last bytes, all if there are fewer, and the size of the file."""
        ...

    def read(self, start: int, length: int, crc: int | None = None) -> bytes:
        """Return a range; bytes without this checksum may be damaged on the way and are read again once."""
        ...


class LocalBytes:
    """A file of this machine."""

    first_tail = _TAIL_BYTES

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    def tail(self, length: int) -> tuple[bytes, int]:
        with self._path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - length))
            return file.read(), size

    def read(self, start: int, length: int, crc: int | None = None) -> bytes:
        with self._path.open("rb", buffering=0) as file:
            return os.pread(file.fileno(), length, start)


class ObjectBytes:
    """An object of a bucket."""

    first_tail = _LIKELY_FOOTER

    def __init__(self, objects: Objects, key: str) -> None:
        self._objects = objects
        self._key = key

    @property
    def name(self) -> str:
        return f"{self._objects.address}/{self._key}"

    def tail(self, length: int) -> tuple[bytes, int]:
        return self._objects.get_tail(self._key, length)

    def read(self, start: int, length: int, crc: int | None = None) -> bytes:
        content = self._objects.get_range(self._key, start, length)
        if crc is not None and crc32(content) != crc:
            content = self._objects.get_range(self._key, start, length)
        return content


class SeekableBytes:
    """Stored bytes as a file object that Arrow reads from, in the thread that asks Arrow.

    Not with Arrow's own read-ahead: its threads may release Python's memory while the interpreter ends
    (`process/ending.py`).
    """

    def __init__(self, stored: StoredBytes, size: int) -> None:
        self._stored = stored
        self._size = size
        self._at = 0
        """The position of the next read."""
        self._fetched: dict[int, bytes] = {}
        """What was requested ahead, by where it begins."""
        self.closed = False

    def fetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Have these ranges, given by their start and end, in memory instead of those fetched before."""
        self._fetched = {}
        wanted = _joined(ranges)
        with ThreadPoolExecutor(_AT_ONCE) as threads:
            found = threads.map(lambda span: self._stored.read(span[0], span[1] - span[0]), wanted)
            self._fetched = dict(zip((start for start, _ in wanted), found, strict=True))

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to an offset of the file."""
        self._at = offset + (0, self._at, self._size)[whence]
        return self._at

    def tell(self) -> int:
        """Return the offset in the file."""
        return self._at

    def size(self) -> int:
        """Return the length of the file."""
        return self._size

    def read(self, length: int = -1) -> bytes:
        """Return the bytes at this offset."""
        length = self._size - self._at if length < 0 else min(length, self._size - self._at)
        piece = self._piece(length) if length > 0 else b""
        self._at += len(piece)
        return piece

    def _piece(self, length: int) -> bytes:
        for start, content in self._fetched.items():
            if start <= self._at and self._at + length <= start + len(content):
                return content[self._at - start : self._at - start + length]
        return self._stored.read(self._at, length)

    def close(self) -> None:
        """Release the file."""
        self.closed = True


def stored(file: Path | StoredBytes) -> StoredBytes:
    """Return the bytes of a file."""
    return LocalBytes(file) if isinstance(file, Path) else file


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the ranges in order, near ones as one."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if joined and start - joined[-1][1] <= _GAP_BYTES:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined
