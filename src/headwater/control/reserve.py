"""Room kept back on the disk of a store, so that an engine can start when the disk is full.

A start writes little: configuration for nats-server and for replicators, the catalog's epoch, files that a
stream needs to open. On a full disk even that is refused. So the file `.reserve` takes up room in good times.
A start that finds no room empties the file, opens what it must, and fills the file again before it takes
messages: the room goes to nobody else. It holds random bytes, since file systems store zeros without blocks.
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
"""No account has a directory of this name, since those have no dots."""
SIZE = 4 << 20
NEEDED = 1 << 20
"""A start that finds less room than this takes the reserve."""
AMPLE = 64 << 20
"""Where a disk has this much room, a second look need not write anything."""
LOOK_S = 1.0
_CHUNK, _BLOCK = 64 << 10, 4 << 10


class Reserve:
    """The reserve of one store: full but for the time in which something opens on a full disk."""

    def __init__(self, store: Path, size: int = SIZE, needed: int = NEEDED) -> None:
        self._path = store / NAME
        self._size = size
        self._needed = needed
        self._openings = 0
        self._turn = asyncio.Lock()
        self._released = 0
        """How much room we gave away since the start and may take back, even from a disk that is full."""
        self._is_short = False
        """Whether we said that the disk is full."""
        self._had_room = False
        """Whether the last look found room; a quota shows only when something is written."""

    @property
    def held(self) -> int:
        """Return how much room is kept back now."""
        try:
            return self._path.stat().st_size
        except OSError:
            return 0

    @asynccontextmanager
    async def spent(self) -> AsyncIterator[None]:
        """Give the room, if there is no other, to what opens in the block; then take back what is left."""
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
        """Have the reserve whole again whenever there is room, until cancelled."""
        while True:
            async with self._turn:
                if self._openings == 0 and (self._is_short or self.held < self._size):
                    await on_thread(self._guarded, self._refill)
            await asyncio.sleep(LOOK_S)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do something; an engine without a reserve is better than none."""
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
            what = f"its reserve of {held >> 10} KiB is released" if held else "it has no reserve"
            logger.warning(
                "the disk of %s is full; %s to start with; messages are refused until there is room",
                self._path.parent,
                what,
            )

    def _take_back(self) -> None:
        """Take what is left of the room that was given away, before anybody else does."""
        if self.held < self._released:
            self._grow(self._released)
            self._drop_empty()

    def _refill(self) -> None:
        self._take_back()
        # Twice the room: the last of a disk is left to messages.
        if self.held < self._size and self._free() >= 2 * self._size:
            self._grow(self._size)
        if self._is_short and self.held >= self._size and self._free() >= self._needed:
            self._is_short = False
            self._released = 0
            logger.warning("the disk of %s has room again; its reserve is whole", self._path.parent)

    def _free(self) -> int:
        status = os.statvfs(self._path.parent)
        return status.f_bavail * status.f_frsize

    def _grow(self, size: int) -> int:
        """Return how long the file is now: this long, or as long as the disk allows."""
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            length = os.fstat(fd).st_size
            noise, step = os.urandom(_CHUNK), _CHUNK
            while length < size:
                try:
                    length += os.pwrite(fd, noise[: min(step, size - length)], length)
                    # A network file system may notice only here that there is no room.
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
        """Give room back to the disk."""
        if self._path.exists():
            os.truncate(self._path, length)
        self._drop_empty()

    def _drop_empty(self) -> None:
        if self._path.exists() and not self.held:
            self._path.unlink()
