"""The lock that gives a store to one engine, and lets others wait for it.

It has two parts: the file `engine.lock`, which contains the owner's process id, and the store's directory
itself. The second part remains if a user removes the file. A network file system may not support locks of
directories, and may lose either. Then `ownership` decides.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import Callable
from errno import EACCES, EAGAIN
from pathlib import Path

from headwater.errors import StoreLockedError

logger = logging.getLogger(__name__)

LOCK = "engine.lock"
LOOK_S = 0.1
"""How often a standby checks whether the store is free."""


class StoreLock:
    """Held from `take` to `release`, or until the process ends, however it ends."""

    def __init__(self, store: Path) -> None:
        self._path = store / LOCK
        self._store = store
        self._fd: int | None = None
        """The locked file; None while the lock is not held."""
        self._directory_fd: int | None = None
        """The locked directory, where the file system can lock one."""

    def take(self) -> None:
        """Return holding the lock; raise if another engine holds it."""
        self._store.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._directory_fd = self._take_directory()
        except OSError:
            owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            raise StoreLockedError(self._store, owner) from None
        self._fd = fd
        self._write_owner()

    def _take_directory(self) -> int | None:
        """Return the locked directory, None if it cannot be locked; raise if another engine has it."""
        fd = os.open(self._store, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(fd)
            if error.errno in (EAGAIN, EACCES):
                raise
            return None
        return fd

    def _write_owner(self) -> None:
        """Write our process id for standbys; the lock is valid even if a full disk refuses that."""
        assert self._fd is not None
        try:
            os.ftruncate(self._fd, os.pwrite(self._fd, b"%d\n" % os.getpid(), 0))
        except OSError as error:
            logger.warning("cannot write to %s: %s", self._path, error)

    async def wait(self, on_owner: Callable[[str], None]) -> None:
        """Return holding the lock, however long that takes; call `on_owner` with each new owner meanwhile."""
        known: str | None = None
        while True:
            try:
                self.take()
            except StoreLockedError as error:
                if error.owner != known:
                    on_owner(error.owner)
                known = error.owner
                await asyncio.sleep(LOOK_S)
            else:
                return

    def release(self) -> None:
        """Release the store to another engine."""
        for fd in (self._directory_fd, self._fd):
            if fd is not None:
                os.close(fd)
        self._fd = self._directory_fd = None
