"""Opening the declared streams of an account: one that cannot be opened is offline and is tried again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path

from headwater.control.catalog_file import REPAIR
from headwater.control.catalog_rows import StreamRow
from headwater.control.declared_streams import DeclaredStreams, readable_config
from headwater.control.directories import AccountDirectories, Orphan
from headwater.control.reconciliation import Reconciliation
from headwater.control.reopening import Reopening
from headwater.errors import Error
from headwater.model.stream import Storage
from headwater.stream.services import Services
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire.stream_json import decode_config

logger = logging.getLogger(__name__)
_OPEN_AT_ONCE = 8
OPEN_WITHIN_S = 30.0
"""How long a starting engine waits for a stream."""


class StreamOpenings:
    """The streams that are being opened, and those that are offline."""

    def __init__(
        self,
        declared: DeclaredStreams,
        directories: AccountDirectories,
        reconciliation: Reconciliation,
        services: Services,
        *,
        before_opened: Callable[[Stream], Awaitable[None]],
        on_opened: Callable[[Stream], None],
    ) -> None:
        self._declared = declared
        self._directories = directories
        self._reconciliation = reconciliation
        self._services = services
        self._before_opened = before_opened
        """Awaited with each stream that was opened, before `on_opened`; if it raises, it is offline."""
        self._on_opened = on_opened
        """Called with each stream that is open now."""
        self.offline: dict[str, str] = {}
        """The declared streams that are not open, each with the reason."""
        self.orphans: set[str] = set()
        """Streams that are not in the catalog, all of them offline."""
        self._failed: set[str] = set()
        """The offline streams that are tried again from time to time."""
        self._reopening = Reopening(self._reopen)
        self._running: dict[str, asyncio.Task[None]] = {}
        """The openings in progress, by the name of the stream."""

    def __len__(self) -> int:
        return len(self._running)

    async def open_all(self, rows: Iterable[StreamRow]) -> None:
        """Open these streams, some at a time."""
        turn = asyncio.Semaphore(_OPEN_AT_ONCE)

        async def open_one(row: StreamRow) -> None:
            async with turn:
                await self._begin(row)

        await asyncio.gather(*(open_one(row) for row in rows))

    def show(self, orphan: Orphan, folder: str) -> None:
        """Show a stream of this folder that is not in the catalog as offline; its files are not touched."""
        row, reason = orphan.row, f"it is not in the catalog, but {orphan.path} contains it; {REPAIR}"
        if row is None:
            logger.error("%s contains a stream that cannot be identified; %s", orphan.path, REPAIR)
            return
        if row.account != folder or row.name in self._declared.rows:
            logger.error("%s has another stream %r of %r; %s", orphan.path, row.name, row.account, REPAIR)
            return
        logger.error("stream %r is orphaned: %s", row.name, reason)
        self._declared.add(row)
        self.orphans.add(row.name)
        self.offline[row.name] = reason

    def ask(self) -> None:
        """Have the offline streams tried again soon."""
        self._reopening.ask()

    def forget(self, name: str) -> asyncio.Task[None] | None:
        """Forget a deleted stream, and return its opening if that is in progress."""
        self.offline.pop(name, None)
        self._failed.discard(name)
        self.orphans.discard(name)
        return self._running.get(name)

    async def close(self) -> None:
        """Open no more streams."""
        await self._reopening.close()
        for opening in self._running.values():
            opening.cancel()

    async def _begin(self, row: StreamRow) -> None:
        """Open a stream; one whose disk hangs is offline until it is open, and the others are served."""
        opening = asyncio.create_task(self._open(row), name=f"open {row.name}")
        self._running[row.name] = opening
        opening.add_done_callback(lambda done: self._has_ended(row.name, done))
        await asyncio.wait({opening}, timeout=OPEN_WITHIN_S)
        if not opening.done() and self._declared.has(row):
            logger.error("stream %r is still being opened, serving the others", row.name)
            self.offline[row.name] = "it is still being opened"

    def _has_ended(self, name: str, opening: asyncio.Task[None]) -> None:
        if self._running.get(name) is opening:
            del self._running[name]

    async def _open(self, row: StreamRow) -> None:
        """Open a declared stream; if it is deleted meanwhile, its directory is removed afterwards."""
        try:
            row, directory = await on_thread(self._prepare, row)
            config, _ = decode_config(row.config.encode())
            if not self._declared.has(row):
                return
            self._declared.rows[row.name] = row
            self._declared.configs[row.name] = config
            stream = await Stream.open(directory, config, created_ns=row.created_ns, services=self._services)
            await self._prepare_observers(stream)
        except Exception as error:  # an error of one stream must not keep others from opening
            self._cannot_open(row, error)
            return
        if not self._declared.has(row):
            await stream.close()
            return
        self.offline.pop(row.name, None)
        if row.name in self._failed:
            self._failed.discard(row.name)
            logger.info("stream %r is open again", row.name)
        self._on_opened(stream)

    async def _prepare_observers(self, stream: Stream) -> None:
        """Have observers read what they need of a stream; close it if they cannot."""
        try:
            await self._before_opened(stream)
        except BaseException:
            await stream.close()
            raise

    def _prepare(self, row: StreamRow) -> tuple[StreamRow, Path]:
        """Return the row of a declared stream, and the directory of its data; in memory that is empty."""
        homes, in_memory = self._directories
        is_in_memory = readable_config(row).storage is Storage.MEMORY
        if is_in_memory and not (homes.root / row.directory).exists():
            homes.make(row)
        home = homes.find(row)
        row = self._reconciliation.settle(row, home)
        homes.finish(home)
        return row, in_memory.make(row) if is_in_memory else home

    async def add(self, row: StreamRow, stream: Stream) -> None:
        """Show a stream that was created as open; if observers cannot take it, as offline, and raise."""
        try:
            await self._prepare_observers(stream)
        except Exception as error:
            self._cannot_open(row, error)
            raise
        self._on_opened(stream)

    def _cannot_open(self, row: StreamRow, error: Exception) -> None:
        """Show a stream as offline, and have it tried again."""
        if not self._declared.has(row):
            return
        if self.offline.get(row.name) != str(error):
            is_known = isinstance(error, Error)
            logger.error(
                "stream %r is offline: %s", row.name, error, exc_info=error if not is_known else None
            )
        self.offline[row.name] = str(error)
        self._failed.add(row.name)
        self._reopening.start()

    async def _reopen(self) -> bool:
        """Try to open each offline stream again; return whether any is still offline."""
        for name in sorted(self._failed):
            if name not in self.offline or name not in self._declared.rows:
                self._failed.discard(name)
            elif name not in self._running:
                await self._begin(self._declared.rows[name])
        return bool(self._failed)
