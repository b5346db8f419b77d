"""Disk space that is reserved in a store, so that an engine can start when the disk is full.

A start writes little: configuration for nats-server and for replicators, the catalog's epoch, files that a
stream needs to open. On a full disk even that is refused. So the file `.reserve` occupies space while there
is some. A start that finds no space empties the file, opens what it must, and fills the file again before it
accepts messages, so that nothing else takes the space. The file has random bytes, since file systems store
zeros without blocks.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from errno import EDQUOT, ENOSPC
from pathlib import Path

from headwater.disk import FILE_MODE
from headwater.threads import on_thread

logger = logging.getLogger(__name__)

NAME = ".reserve"
"""No account has a directory of this name, since their names have no dots."""
SIZE = 4 << 20
NEEDED = 1 << 20
"""A start that finds less space than this uses the reserve."""
AMPLE = 64 << 20
"""With this much space on the disk, checking it needs no write."""
LOOK_S = 1.0
_CHUNK, _BLOCK = 64 << 10, 4 << 10


class Reserve:
    """The reserve of one store: full, except while something opens on a full disk."""

    def __init__(self, store: Path, size: int = SIZE, needed: int = NEEDED) -> None:
        self._path = store / NAME
        self._size = size
        self._needed = needed
        self._openings = 0
        """How many openings use the released space."""
        self._turn = asyncio.Lock()
        """Held while the reserve is released or filled."""
        self._released = 0
        """How much space was released since the start and may be taken again, even from a full disk."""
        self._is_short = False
        """Whether a full disk was logged."""
        self._had_room = False
        """Whether the last check found space; a quota shows only when something is written."""

    @property
    def held(self) -> int:
        """Return how much space is reserved now."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    @asynccontextmanager
    async def spent(self) -> AsyncIterator[None]:
        """Release the reserve for the block if there is no other space; then take back the rest."""
        async with self._turn:
            self._openings += 1
            if self._openings == 1:
                await on_thread(self._guarded, self._make_room)
        try:
            yield
        finally:
            async with self._turn:
                self._openings -= 1
                if self._openings == 0:
                    await on_thread(self._guarded, self._take_back)

    async def keep(self) -> None:
        """Fill the reserve again whenever there is space, until cancelled."""
        while True:
            async with self._turn:
                if self._openings == 0 and (self._is_short or self.held < self._size):
                    await on_thread(self._guarded, self._refill)
            await asyncio.sleep(LOOK_S)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run a step and ignore its errors: an engine without a reserve is better than none."""
        try:
            work()
        except OSError as error:
            logger.debug("the reserve %s: %s", self._path, error)

    def _make_room(self) -> None:
        held = self.held
        if self._had_room and self._free() >= AMPLE:
            return
        self._had_room = self._grow(held + self._needed) == held + self._needed
        self._shrink(held if self._had_room else 0)
        if self._had_room:
            return
        self._released = max(self._released, held)
        if not self._is_short:
            self._is_short = True
            what = f"releasing its reserve of {held >> 10} KiB" if held else "it has no reserve"
            logger.warning(
                "the disk of %s is full: %s; messages are refused until there is space",
                self._path.parent,
                what,
            )

    def _take_back(self) -> None:
        """Take back the rest of the released space, before something else uses it."""
        if self.held < self._released:
            self._grow(self._released)
            self._drop_empty()

    def _refill(self) -> None:
        self._take_back()
        # Twice the size: the last space of a disk is left to messages.
        if self.held < self._size and self._free() >= 2 * self._size:
            self._grow(self._size)
        if self._is_short and self.held >= self._size and self._free() >= self._needed:
            self._is_short = False
            self._released = 0
            logger.warning("the disk of %s has space again; its reserve is restored", self._path.parent)

    def _free(self) -> int:
        status = os.statvfs(self._path.parent)
        return status.f_bavail * status.f_frsize

    def _grow(self, size: int) -> int:
        """Return the new length of the file: this long, or as long as the disk allows."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            length = os.fstat(fd).st_size
            noise, step = os.urandom(_CHUNK), _CHUNK
            while length < size:
                try:
                    length += os.pwrite(fd, noise[: min(step, size - length)], length)
                    # A network file system may report only here that there is no space.
                    if length >= size:
                        os.fsync(fd)
                except OSError as error:
                    if error.errno not in (ENOSPC, EDQUOT):
                        raise
                    if step == _BLOCK or length >= size:
                        break
                    step = _BLOCK
            return os.fstat(fd).st_size if length < size else length
        finally:
            os.close(fd)

    def _shrink(self, length: int) -> None:
        """Release space to the disk."""
        if self._path.exists():
            os.truncate(self._path, length)
        self._drop_empty()

    def _drop_empty(self) -> None:
        if self._path.exists() and not self.held:
            self._path.unlink()
