"""The lock that gives a store to one engine, and lets others wait for it."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from headwater.errors import StoreLockedError

LOOK_S = 0.1
"""How often who waits looks whether the store is free."""


class StoreLock:
    """Held from `take` to `release`, or until the process ends, however it ends."""

    def __init__(self, store: Path) -> None:
        self._path = store / "engine.lock"
        self._store = store
        self._fd: int | None = None

    def take(self) -> None:
        """Return holding the lock; raise if another engine holds it."""
        self._store.mkdir(parents=True, exist_ok=True)
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(fd, 32, 0).decode(errors="replace").strip()
            os.close(fd)
            raise StoreLockedError(self._store, owner) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
        self._fd = fd

    async def wait(self, tell: Callable[[str], None]) -> None:
        """Return holding the lock, however long that takes; `tell` hears who has it, when that changes."""
        told: str | None = None
        while True:
            try:
                self.take()
            except StoreLockedError as error:
                if error.owner != told:
                    tell(error.owner)
                told = error.owner
                await asyncio.sleep(LOOK_S)
            else:
                return

    def release(self) -> None:
        """Let another engine have the store."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
