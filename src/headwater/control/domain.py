"""The streams of one account: declared, opened, changed, removed, each step safe against a crash.

Create: directory with its identity, marked as unfinished → open the stream in it → write the config next to
it → row in the catalog → remove the mark → answer. A crash before the row leaves an unfinished directory that
no row names, which the next open removes. A crash after it leaves a stream with a mark, which the next open
removes.

Delete: in one transaction remove the row and record the deletion → rename the directory to trash → remove it
→ remove the record. A crash in between leaves a directory with a recorded deletion, which the next open
removes. A directory that no row names and that was not deleted is an orphan: it is offline until it is
repaired or deleted.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from weakref import WeakValueDictionary

from headwater.background_tasks import BackgroundTasks
from headwater.control import rules
from headwater.control.account import AccountLimits
from headwater.control.catalog import Catalog
from headwater.control.declared_streams import DeclaredStreams
from headwater.control.directories import AccountDirectories, Directories
from headwater.control.late_streams import LateStreams
from headwater.control.observers import Observer, Observers, Prepare
from headwater.control.reconciliation import Reconciliation
from headwater.control.stream_creation import Fill, StreamCreation
from headwater.control.stream_openings import StreamOpenings
from headwater.control.stream_removals import StreamRemovals
from headwater.errors import ApiError, DiskError, FencedError, api_error
from headwater.fence import Fence
from headwater.model.names import directory_name
from headwater.model.stream import Storage, StreamConfig
from headwater.model.times import SECOND
from headwater.stream.services import Services
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire.stream_json import encode_config

logger = logging.getLogger(__name__)
TAKE_BACK_S = 1.0
"""How often the rollback of a refused config is tried."""
CLOSE_WITHIN_S = 30.0
"""How long to wait for a stream to close; after that its disk hangs."""


class Domain:
    """All streams of an account; operations on the same name run one after the other."""

    def __init__(
        self,
        *,
        account: str,
        store: Path,
        catalog: Catalog,
        services: Services,
        limits: AccountLimits,
        folder: str = "",
    ) -> None:
        self.account = account
        self._folder = folder = folder or account
        """The account's folder in the store, which may differ from its name on the server."""
        self.limits = limits
        self._catalog = catalog
        self._services = replace(services, free_bytes=self._free_bytes)
        """What all streams share, with the room of this account."""
        self._memory = services.settings.memory_dir / f"headwater-{catalog.store_id}"
        """The directory of all memory streams of the store."""
        self._directories = AccountDirectories(
            homes=Directories(store / directory_name(folder), services.file_disk, services.tables),
            in_memory=Directories(self._memory / directory_name(folder), services.memory_disk),
        )
        self._declared = DeclaredStreams()
        """The streams of the catalog, open or not."""
        self._streams: dict[str, Stream] = {}
        """The streams that are open."""
        self._observers = Observers()
        self._openings = StreamOpenings(
            self._declared,
            self._directories,
            Reconciliation(catalog, services.file_disk),
            self._services,
            before_opened=self._observers.prepare,
            on_opened=self._opened,
        )
        self._removals = StreamRemovals(catalog, self._directories)
        self._creation = StreamCreation(folder, catalog, self._directories, self._removals, self._services)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One lock for each stream name with an operation in progress."""
        self._closings = BackgroundTasks()
        """Streams that are being closed; one whose disk hangs stays here."""
        self._retries = BackgroundTasks()
        """The rollbacks of configs that the disk has refused so far."""
        self.late = LateStreams()
        """The streams that do not answer at the moment."""

    def observe(self, observer: Observer, prepare: Prepare | None = None) -> None:
        """Notify the observer of every stream, including those that are open already.

        `prepare` is awaited with a stream that is opened later, before any observer is notified. If it
        raises, the stream is offline and is tried again.
        """
        self._observers.add(observer, prepare)
        for stream in self._streams.values():
            observer.on_opened(stream)

    @property
    def fence(self) -> Fence:
        """Return the fence of the store."""
        return self._services.fence

    @property
    def offline(self) -> Mapping[str, str]:
        """Return the declared streams that could not be opened, each with the reason."""
        return MappingProxyType(self._openings.offline)

    def configs(self) -> Collection[StreamConfig]:
        """Return the config of every declared stream."""
        return self._declared.configs.values()

    @property
    def open_streams(self) -> Collection[Stream]:
        """Return every stream that is open, in no order."""
        return self._streams.values()

    def names(self, subject: str = "") -> list[str]:
        """Return the sorted names of the streams, all or those whose subjects overlap with this one."""
        return self._declared.names(subject)

    def find(self, name: str) -> Stream | None:
        """Return the stream, or None if it does not exist or is offline."""
        return self._streams.get(name)

    def stream(self, name: str) -> Stream:
        """Return the stream; raise an error if it is unknown or offline."""
        stream = self._streams.get(name)
        if stream is not None:
            return stream
        reason = self._openings.offline.get(name)
        if reason is not None:
            self._openings.ask()
            raise api_error("stream_offline_reason", err=reason)
        raise api_error("stream_not_found")

    def _free_bytes(self, storage: Storage) -> int | None:
        """Return what the account may store beyond all that its streams hold; None without a limit."""
        limit = self.limits.max_memory if storage is Storage.MEMORY else self.limits.max_storage
        if limit < 0:
            return None
        return limit - sum(s.reading.size for s in self._streams.values() if s.config.storage is storage)

    async def used(self, storage: Storage) -> int:
        """Return the bytes that the account's streams use of one kind of storage."""
        streams = [s for s in self._streams.values() if s.config.storage is storage]
        sizes = {stream.name: stream.reading.durable_bytes for stream in streams}
        answers = await self.late.ask(
            (s for s in streams if sizes[s.name] is None), lambda stream: stream.reading.state()
        )
        sizes |= {name: state.bytes for name, state in answers.given.items()}
        # One that does not answer counts with its last known size.
        return sum(s.reading.known_bytes if (size := sizes[s.name]) is None else size for s in streams)

    async def open_all(self) -> None:
        """Open every declared stream; one that cannot be opened is offline, and the others are served."""
        self._services.fence.check()
        rows = await on_thread(self._catalog.streams, self._folder)
        deleted = await on_thread(self._catalog.deletions)
        homes, in_memory = self._directories
        swept = await on_thread(homes.sweep, rows, deleted)
        self._removals.remove(homes, swept.waiting)
        self._removals.remove(in_memory, await on_thread(in_memory.clear))
        for row in rows:
            self._declared.add(row)
        await self._openings.open_all(rows)
        for orphan in swept.orphans:
            self._openings.show(orphan, self._folder)

    def _opened(self, stream: Stream) -> None:
        self._streams[stream.name] = stream
        self._observers.on_opened(stream)

    async def close(self) -> None:
        """Close every stream; operations in progress end first."""
        await self._openings.close()
        self._retries.cancel()
        await self.late.close()
        await asyncio.gather(*(self._close_one(name) for name in list(self._streams)))
        await self._removals.ended(CLOSE_WITHIN_S)
        # Memory streams end here. Their files would use memory until the next start.
        await on_thread(self._forget_memory)

    async def _close_one(self, name: str) -> None:
        async with self._lock(name):
            stream = self._streams.pop(name, None)
            if stream is not None:
                await self._close(stream)

    def _forget_memory(self) -> None:
        try:
            self._services.fence.check()
        except FencedError:
            return  # the memory streams may be those of the engine that owns the store now
        disk = self._services.memory_disk
        disk.remove_tree(self._directories.in_memory.root)
        if not disk.list(self._memory):  # another account's may still exist
            disk.remove_tree(self._memory)

    async def _close(self, stream: Stream) -> asyncio.Task[None]:
        """Return the task that closes a stream, once it has ended, or after a while if it hangs."""
        self._observers.on_closed(stream)
        closing = self._closings.start(self._end(stream), f"close {stream.name}")
        await asyncio.wait({closing}, timeout=CLOSE_WITHIN_S)
        if not closing.done():
            logger.error("stream %r does not close, its disk does not respond", stream.name)
        return closing

    async def _end(self, stream: Stream) -> None:
        try:
            await stream.close()
        except (DiskError, OSError):
            logger.exception("stream %r failed to close", stream.name)

    async def create_stream(
        self, config: StreamConfig, *, pedantic: bool = False, name: str | None = None
    ) -> tuple[Stream, bool]:
        """Return the stream, and whether it is new; an identical config returns the existing stream."""
        async with self._lock(config.name):
            known = config.name in self._declared.configs
            config = self._check_create(config, pedantic=pedantic, name=name)
            if known:
                return self.stream(config.name), False
            return await self._create(config), True

    async def restore_stream(self, config: StreamConfig, fill: Fill, declare: Fill | None = None) -> Stream:
        """Return a new stream with the messages that `fill` writes; before that no client sees it.

        On an error it is removed. `declare` is called once the stream is in the catalog, for its consumers.
        """
        self.check_restore(config)
        async with self._lock(config.name):
            return await self._create(self.check_restore(config), fill, declare)

    def check_restore(self, config: StreamConfig) -> StreamConfig:
        """Return the config to store for a stream from an archive, or refuse it."""
        if config.name in self._declared.configs:
            raise api_error("stream_name_exist_restore_failed")
        return self._check_create(config)

    def _check_create(
        self, config: StreamConfig, *, pedantic: bool = False, name: str | None = None
    ) -> StreamConfig:
        return rules.check_create(
            config,
            self._declared.configs,
            name=name,
            pedantic=pedantic,
            limits=self.limits,
            max_duplicate_window=self._max_duplicate_window,
        )

    @property
    def _max_duplicate_window(self) -> int:
        return int(self._services.settings.max_duplicate_window_s * SECOND)

    async def _create(
        self, config: StreamConfig, fill: Fill | None = None, declare: Fill | None = None
    ) -> Stream:
        self._declared.configs[config.name] = config
        try:
            stream, row = await self._creation.create(config, fill, declare)
        except BaseException as error:
            del self._declared.configs[config.name]
            if isinstance(error, OSError | DiskError | sqlite3.Error):
                raise _failed("stream_create", f"error creating store for stream: {error}") from error
            raise
        self._declared.rows[config.name] = row
        try:
            await self._openings.add(row, stream)
        except (OSError, DiskError, sqlite3.Error) as error:
            raise _failed("stream_create", str(error)) from error
        return stream

    async def update_stream(
        self,
        config: StreamConfig,
        *,
        pedantic: bool = False,
        name: str | None = None,
        consumers: Iterable[rules.ConsumerBounds] = (),
    ) -> Stream:
        """Return the stream once its new config is durable and in effect."""
        async with self._lock(config.name):
            old = self._declared.configs.get(config.name)
            config = rules.check_update(
                config,
                self._declared.configs,
                name=name,
                pedantic=pedantic,
                limits=self.limits,
                max_duplicate_window=self._max_duplicate_window,
                consumers=consumers,
            )
            assert old is not None
            stream = self.stream(config.name)
            self._declared.configs[config.name] = config
            try:
                await on_thread(self._declare, config)
                await stream.use(config)
            except BaseException as error:
                self._declared.configs[config.name] = old
                await self._take_back(old)
                if isinstance(error, OSError | DiskError | sqlite3.Error):
                    raise _failed("stream_update", str(error)) from error
                raise
            self._observers.on_changed(stream, old)
            # From here on messages go, so nothing takes the config back, not even the end of the request.
            await stream.remove_unkept(old)
            return stream

    async def _take_back(self, old: StreamConfig) -> None:
        """Declare the old config again, later if the disk refuses: a restart must not find the new one."""
        if await self._has_declared(old):
            return
        self._retries.start(self._keep_taking_back(old), f"take back {old.name}")

    async def _keep_taking_back(self, old: StreamConfig) -> None:
        """Try until it is declared, or a newer config is."""
        while self._declared.configs.get(old.name) is old:
            await asyncio.sleep(TAKE_BACK_S)
            async with self._lock(old.name):
                if self._declared.configs.get(old.name) is not old or await self._has_declared(old):
                    return

    async def _has_declared(self, config: StreamConfig) -> bool:
        """Declare a config; return whether the disk accepted it."""
        try:
            await on_thread(self._declare, config)
        except (OSError, DiskError, sqlite3.Error) as error:
            logger.warning("stream %r: cannot write its config yet: %s", config.name, error)
            return False
        return True

    def _declare(self, config: StreamConfig) -> None:
        self._catalog.update(self._folder, config.name, encode_config(config).decode())

    async def delete_stream(self, name: str) -> None:
        """Return once the stream is deleted for all clients; its files are removed in the background."""
        async with self._lock(name):
            row = self._declared.rows.get(name)
            if row is None:
                raise api_error("stream_not_found")
            is_orphan = name in self._openings.orphans
            try:
                await on_thread(self._removals.record, row, is_orphan=is_orphan)
            except (sqlite3.Error, DiskError) as error:
                raise _failed("stream_delete", str(error)) from error
            stream = self._streams.pop(name, None)
            closing = await self._close(stream) if stream is not None else None
            self._declared.remove(name)
            opening = self._openings.forget(name)
            await self._removals.discard(row, closing or opening)

    def _lock(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock


def _failed(row: str, err: str) -> ApiError:
    return api_error(row, err=err)
