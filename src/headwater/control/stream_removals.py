"""Removing the directories of deleted streams, in the background; the next start does what fails."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from pathlib import Path

from headwater.background_tasks import BackgroundTasks
from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.control.directories import (
    AccountDirectories,
    Directories,
    IdentityError,
    UnreadableIdentityError,
)
from headwater.errors import Error
from headwater.threads import on_thread

logger = logging.getLogger(__name__)


class StreamRemovals:
    """The removals of one account that are in progress."""

    def __init__(self, catalog: Catalog, directories: AccountDirectories) -> None:
        self._catalog = catalog
        self._directories = directories
        self._tasks = BackgroundTasks()

    def __len__(self) -> int:
        return len(self._tasks)

    def record(self, row: StreamRow, *, is_orphan: bool) -> None:
        """Record a deletion durably, even if the engine stops now; blocks on the disk."""
        if is_orphan:
            self._catalog.record_deletion(row.identity, row.account, row.name)
            return
        try:
            self._directories.homes.find(row)
            is_there = True
        except UnreadableIdentityError:
            # The next start reads it again, and removes the directory only if it has this identity.
            is_there = True
        except IdentityError:
            # Nothing to remove. If its directory reappears, it must not be removed either.
            is_there = False
        self._catalog.delete(row.account, row.name, tombstone=is_there)

    async def discard(self, row: StreamRow, task: asyncio.Task[None] | None) -> None:
        """Discard the directories of a removed stream, after the task that still uses them.

        It returns at once if that task has not ended: the directory must not become another stream's before.
        """
        if task is None or task.done():
            await self._discard(row)
        else:
            self._tasks.start(self._discard_after(task, row), "remove streams")

    async def _discard_after(self, task: asyncio.Task[None], row: StreamRow) -> None:
        await asyncio.wait({task})
        await self._discard(row)

    async def _discard(self, row: StreamRow) -> None:
        """Discard the directories of a removed stream; if that fails, the next open does it."""
        homes, in_memory = self._directories
        path = in_memory.root / row.directory
        if path.exists():
            self.remove(in_memory, [await on_thread(in_memory.discard, path)])
        try:
            home = await on_thread(homes.find, row)
            self.remove(homes, [await on_thread(homes.discard, home)], row.identity)
        except Error as error:
            logger.warning("cannot remove the files of stream %r until the next start: %s", row.name, error)

    def remove(self, directories: Directories, trash: list[Path], deleted: str = "") -> None:
        """Remove discarded directories in the background, and then the record of the deletion."""
        if trash:
            self._tasks.start(self._remove(directories, trash, deleted), "remove streams")

    async def _remove(self, directories: Directories, trash: list[Path], deleted: str) -> None:
        for path in trash:
            try:
                await on_thread(directories.remove, path)
            except Error as error:
                logger.warning("cannot remove %s until the next start: %s", path, error)
        if deleted:
            try:
                await on_thread(self._catalog.forget_deletion, deleted)
            except sqlite3.Error as error:
                logger.warning("cannot remove the record of a deletion: %s", error)

    async def ended(self, timeout_s: float) -> None:
        """Return once the removals in progress have ended, or after the timeout."""
        await self._tasks.ended(timeout_s)
