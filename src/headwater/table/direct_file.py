"""A file that is written without the page cache (O_DIRECT), a block at a time, while the next is filled.

To have a long copy in the cache gains nothing: pages must be found for it, filled, and written from there.
A file of less than a block is written as any other.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from headwater.disk import FILE_MODE

BLOCK_BYTES = 4 << 20
ALIGNED_BYTES = 4096
"""Offsets, lengths and memory addresses must be multiples of this when the cache is bypassed."""
_MOST_FREE = 8
_free: list[mmap.mmap] = []
"""Blocks of memory that were used before: fresh memory costs more than a write."""


class DirectFile:
    """A new file; OSError from any call if the disk refuses what was written until then."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, FILE_MODE)
        self._filling, self._writing = _block(), _block()
        """The block that is filled now, and the one that is being written."""
        self._length = 0
        """How many bytes of the block that is filled now are used."""
        self._place = 0
        """The offset in the file of the block that is filled now."""
        self._thread: ThreadPoolExecutor | None = None
        """Writes in the background; None until the first block is full."""
        self._in_progress: Future[None] | None = None
        """The write of the other block."""
        self._is_direct = False
        """Whether the file system accepted to bypass the page cache."""
        self._written_bytes = 0
        self._busy_s = 0.0
        """How long writes took in all."""
        self.closed = False

    @property
    def bytes_per_s(self) -> float | None:
        """Return the write rate of the disk; None until it is known."""
        return self._written_bytes / self._busy_s if self._busy_s else None

    def write(self, data: memoryview) -> int:
        """Take all of the data."""
        rest = data
        while rest:
            room = BLOCK_BYTES - self._length
            part = rest[:room]
            self._filling[self._length : self._length + len(part)] = part
            self._length += len(part)
            rest = rest[room:]
            if self._length == BLOCK_BYTES:
                self._write_block()
        return len(data)

    def close(self) -> None:
        """Write what is left; nothing is synced."""
        if self.closed:
            return
        self.closed = True
        try:
            self._await()
            if not self._place:
                _write_all(self._fd, memoryview(self._filling)[: self._length], 0)
            elif self._length:
                # What fills up the last block is cut off again.
                padded = -(-self._length // ALIGNED_BYTES) * ALIGNED_BYTES
                self._write(self._filling, padded, self._place)
                os.ftruncate(self._fd, self._place + self._length)
        finally:
            if self._thread is not None:
                self._thread.shutdown()
            os.close(self._fd)
            for block in (self._filling, self._writing):
                if len(_free) < _MOST_FREE:
                    _free.append(block)

    def _write_block(self) -> None:
        """Write the full block in the background, after the one before it."""
        self._await()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
            self._is_direct = _set_direct(self._fd, True)
        self._filling, self._writing = self._writing, self._filling
        self._in_progress = self._thread.submit(self._write, self._writing, BLOCK_BYTES, self._place)
        self._place += BLOCK_BYTES
        self._length = 0

    def _await(self) -> None:
        if self._in_progress is not None:
            in_progress, self._in_progress = self._in_progress, None
            in_progress.result()

    def _write(self, block: mmap.mmap, length: int, place: int) -> None:
        """Write a block at its offset."""
        began = time.monotonic()
        view = memoryview(block)[:length]
        try:
            _write_all(self._fd, view, place)
        except OSError as error:
            if not self._is_direct or error.errno != errno.EINVAL:
                raise
            # Some file systems say so only now.
            self._is_direct = _set_direct(self._fd, False)
            _write_all(self._fd, view, place)
        finally:
            view.release()
        if not self._is_direct:
            os.fdatasync(self._fd)
        self._written_bytes += length
        self._busy_s += time.monotonic() - began


def _block() -> mmap.mmap:
    return _free.pop() if _free else mmap.mmap(-1, BLOCK_BYTES)


def _write_all(fd: int, data: memoryview, place: int) -> None:
    while data:
        count = os.pwrite(fd, data, place)
        data, place = data[count:], place + count


def _set_direct(fd: int, wanted: bool) -> bool:
    """Bypass the cache or not; return whether writes do."""
    flags = fcntl.fcntl(fd, fcntl.F_GETFL) & ~os.O_DIRECT
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, flags | (os.O_DIRECT if wanted else 0))
    except OSError:
        return False
    return wanted
