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
import uuid
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

from headwater.background_tasks import BackgroundTasks
from headwater.control import rules
from headwater.control.account import AccountLimits
from headwater.control.catalog import REPAIR, Catalog, StreamRow
from headwater.control.directories import Directories, IdentityError, Orphan, UnreadableIdentityError
from headwater.control.late_streams import LateStreams
from headwater.control.reconciliation import Reconciliation
from headwater.control.reopening import Reopening
from headwater.errors import ApiError, DiskError, Error, FencedError, api_error
from headwater.fence import Fence
from headwater.model.names import directory_name
from headwater.model.stream import Storage, StreamConfig
from headwater.model.subject import collides
from headwater.model.times import SECOND
from headwater.stream.store import Services
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire.stream_json import decode_config, encode_config

logger = logging.getLogger(__name__)
Fill = Callable[[Stream], Coroutine[Any, Any, None]]
"""Writes messages to a new stream before any client sees it."""
_OPEN_AT_ONCE = 8
OPEN_WITHIN_S = 30.0
"""How long a starting engine waits for a stream."""
TAKE_BACK_S = 1.0
"""How often the rollback of a refused config is tried."""
CLOSE_WITHIN_S = 30.0
"""How long to wait for a stream to close; after that its disk hangs."""
_T = TypeVar("_T")


class Observer(Protocol):
    """Keeps subscriptions or other state in step with the streams."""

    def on_opened(self, stream: Stream) -> None:
        """A stream is open and accepts messages from now on."""
        ...

    def on_changed(self, stream: Stream, old: StreamConfig) -> None:
        """A stream's config was replaced."""
        ...

    def on_closed(self, stream: Stream) -> None:
        """A stream is about to be closed and accepts no more messages."""
        ...


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
        self._memory = services.settings.memory_dir / f"headwater-{catalog.store_id}"
        self._homes = Directories(store / directory_name(folder), services.file_disk, services.tables)
        """The directories with each stream's identity and declaration, and with a file stream's data."""
        self._in_memory = Directories(self._memory / directory_name(folder), services.memory_disk)
        """The directories with memory streams' data."""
        self._reconciliation = Reconciliation(catalog, services.file_disk)
        # The declared configs, and those about to be. Nothing is awaited between checking a config against
        # these and adding it here, so no two streams can have the same subject.
        self._configs: dict[str, StreamConfig] = {}
        self._rows: dict[str, StreamRow] = {}
        self._streams: dict[str, Stream] = {}
        self._offline: dict[str, str] = {}
        self._failed: set[str] = set()
        """The offline streams that are tried again from time to time."""
        self._reopening = Reopening(self._reopen)
        self._orphans: set[str] = set()
        """Streams that are not in the catalog, all of them offline."""
        self._observers: list[Observer] = []
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._openings: dict[str, asyncio.Task[None]] = {}
        """The streams that are being opened, by name."""
        self._closings = BackgroundTasks()
        self._removals = BackgroundTasks()
        self._retries = BackgroundTasks()
        self.late = LateStreams()
        """The streams that do not answer at the moment."""

    def observe(self, observer: Observer) -> None:
        """Notify the observer of every stream, including those that are open already."""
        self._observers.append(observer)
        for stream in self._streams.values():
            observer.on_opened(stream)

    @property
    def fence(self) -> Fence:
        """Return the fence of the store."""
        return self._services.fence

    @property
    def offline(self) -> Mapping[str, str]:
        """Return the declared streams that could not be opened, each with the reason."""
        return MappingProxyType(self._offline)

    def configs(self) -> Collection[StreamConfig]:
        """Return the config of every declared stream."""
        return self._configs.values()

    def names(self, subject: str = "") -> list[str]:
        """Return the sorted names of the streams, all or those whose subjects overlap with this one."""
        return sorted(name for name in self._rows if not subject or _listens(self._configs[name], subject))

    def find(self, name: str) -> Stream | None:
        """Return the stream, or None if it does not exist or is offline."""
        return self._streams.get(name)

    def stream(self, name: str) -> Stream:
        """Return the stream; raise an error if it is unknown or offline."""
        stream = self._streams.get(name)
        if stream is not None:
            return stream
        if name in self._offline:
            self._reopening.ask()
            raise api_error("stream_offline_reason", err=self._offline[name])
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
        swept = await on_thread(self._homes.sweep, rows, deleted)
        self._remove(self._homes, swept.waiting)
        self._remove(self._in_memory, await on_thread(self._in_memory.clear))
        for row in rows:
            self._rows[row.name] = row
            self._configs[row.name] = _readable(row)
        turn = asyncio.Semaphore(_OPEN_AT_ONCE)

        async def open_one(row: StreamRow) -> None:
            async with turn:
                await self._begin_opening(row)

        await asyncio.gather(*(open_one(row) for row in rows))
        for orphan in swept.orphans:
            self._show(orphan)

    async def _begin_opening(self, row: StreamRow) -> None:
        """Open a stream; one whose disk hangs is offline until it is open, and the others are served."""
        opening = asyncio.create_task(self._open(row), name=f"open {row.name}")
        self._openings[row.name] = opening
        opening.add_done_callback(lambda done: self._has_ended(row.name, done))
        await asyncio.wait({opening}, timeout=OPEN_WITHIN_S)
        if not opening.done() and self._is_declared(row):
            logger.error("stream %r is still being opened, serving the others", row.name)
            self._offline[row.name] = "it is still being opened"

    def _has_ended(self, name: str, opening: asyncio.Task[None]) -> None:
        if self._openings.get(name) is opening:
            del self._openings[name]

    def _is_declared(self, row: StreamRow) -> bool:
        """Return whether a row is still that of its name: the stream may have been deleted and re-created."""
        known = self._rows.get(row.name)
        return known is not None and known.identity == row.identity

    def _show(self, orphan: Orphan) -> None:
        """Show a stream that is not in the catalog as offline; its files are not touched."""
        row, reason = orphan.row, f"it is not in the catalog, but {orphan.path} contains it; {REPAIR}"
        if row is None:
            logger.error("%s contains a stream that cannot be identified; %s", orphan.path, REPAIR)
            return
        if row.account != self._folder or row.name in self._rows:
            logger.error("%s has another stream %r of %r; %s", orphan.path, row.name, row.account, REPAIR)
            return
        logger.error("stream %r is orphaned: %s", row.name, reason)
        self._rows[row.name] = row
        self._orphans.add(row.name)
        self._offline[row.name] = reason
        self._configs[row.name] = _readable(row)

    async def _open(self, row: StreamRow) -> None:
        """Open a declared stream; if it is deleted meanwhile, its directory is removed afterwards."""
        try:
            row, directory = await on_thread(self._prepare, row)
            config, _ = decode_config(row.config.encode())
            if not self._is_declared(row):
                return
            self._rows[row.name] = row
            self._configs[row.name] = config
            self._require_no_copies(config)
            stream = await Stream.open(directory, config, created_ns=row.created_ns, services=self._services)
        except Exception as error:  # an error of one stream must not keep others from opening
            self._cannot_open(row, error)
            return
        if not self._is_declared(row):
            await stream.close()
            return
        self._offline.pop(row.name, None)
        if row.name in self._failed:
            self._failed.discard(row.name)
            logger.info("stream %r is open again", row.name)
        self._opened(stream)

    def _cannot_open(self, row: StreamRow, error: Exception) -> None:
        """Show a stream as offline, and have it tried again."""
        if not self._is_declared(row):
            return
        if self._offline.get(row.name) != str(error):
            is_known = isinstance(error, Error)
            logger.error(
                "stream %r is offline: %s", row.name, error, exc_info=error if not is_known else None
            )
        self._offline[row.name] = str(error)
        self._failed.add(row.name)
        self._reopening.start()

    async def _reopen(self) -> bool:
        """Try to open each offline stream again; return whether any is still offline."""
        for name in sorted(self._failed):
            if name not in self._offline or name not in self._rows:
                self._failed.discard(name)
            elif name not in self._openings:
                await self._begin_opening(self._rows[name])
        return bool(self._failed)

    def _prepare(self, row: StreamRow) -> tuple[StreamRow, Path]:
        """Return the row of a declared stream, and the directory of its data; in memory that is empty."""
        in_memory = _readable(row).storage is Storage.MEMORY
        if in_memory and not (self._homes.root / row.directory).exists():
            self._homes.make(row)
        home = self._homes.find(row)
        row = self._reconciliation.settle(row, home)
        self._homes.finish(home)
        return row, self._in_memory.make(row) if in_memory else home

    def _opened(self, stream: Stream) -> None:
        self._streams[stream.name] = stream
        for observer in self._observers:
            observer.on_opened(stream)

    async def close(self) -> None:
        """Close every stream; operations in progress end first."""
        await self._reopening.close()
        for opening in self._openings.values():
            opening.cancel()
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
        disk.remove_tree(self._in_memory.root)
        if not disk.list(self._memory):  # another account's may still exist
            disk.remove_tree(self._memory)

    async def _close(self, stream: Stream) -> asyncio.Task[None]:
        """Return the task that closes a stream, once it has ended, or after a while if it hangs."""
        for observer in self._observers:
            observer.on_closed(stream)
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
            known = config.name in self._configs
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
        if config.name in self._configs:
            raise api_error("stream_name_exist_restore_failed")
        return self._check_create(config)

    def _check_create(
        self, config: StreamConfig, *, pedantic: bool = False, name: str | None = None
    ) -> StreamConfig:
        self._require_no_copies(config)
        return rules.check_create(
            config,
            self._configs,
            name=name,
            pedantic=pedantic,
            limits=self.limits,
            max_duplicate_window=self._max_duplicate_window,
        )

    def _require_no_copies(self, config: StreamConfig) -> None:
        """Refuse what transfers cannot do yet."""
        if self._services.tables is not None and (config.mirror or config.sources):
            err = "mirrors and sources do not work yet on an engine that keeps tables in a bucket (--tables)"
            raise api_error("bad_config", err=err)

    @property
    def _max_duplicate_window(self) -> int:
        return int(self._services.settings.max_duplicate_window_s * SECOND)

    async def _create(
        self, config: StreamConfig, fill: Fill | None = None, declare: Fill | None = None
    ) -> Stream:
        self._configs[config.name] = config
        try:
            stream, row = await self._make(config, fill, declare)
        except BaseException as error:
            del self._configs[config.name]
            if isinstance(error, OSError | DiskError | sqlite3.Error):
                raise _failed("stream_create", f"error creating store for stream: {error}") from error
            raise
        self._rows[config.name] = row
        self._opened(stream)
        return stream

    async def _make(
        self, config: StreamConfig, fill: Fill | None, declare: Fill | None
    ) -> tuple[Stream, StreamRow]:
        """Return a new stream once it is durably declared; on any error nothing of it is left."""
        identity = uuid.uuid4().hex
        row = StreamRow(
            self._folder,
            config.name,
            encode_config(config).decode(),
            self._services.clock.now_ns(),
            identity,
            self._homes.free_name(config.name, identity),
        )
        in_memory = config.storage is Storage.MEMORY
        home = await _unbroken(on_thread(self._homes.make, row))
        directory = home
        try:
            if in_memory:
                directory = await _unbroken(on_thread(self._in_memory.make, row))
            stream = await self._fill_and_declare(config, fill, declare, row, directory, home)
        except BaseException:
            self._remove(self._homes, [await on_thread(self._homes.discard, home)])
            if directory != home:
                self._remove(self._in_memory, [await on_thread(self._in_memory.discard, directory)])
            raise
        return stream, row

    async def _fill_and_declare(
        self,
        config: StreamConfig,
        fill: Fill | None,
        declare: Fill | None,
        row: StreamRow,
        directory: Path,
        home: Path,
    ) -> Stream:
        """Return the stream once it is in the catalog and its directory is not marked unfinished any more."""
        opening = Stream.open(directory, config, created_ns=row.created_ns, services=self._services)
        stream = await _unbroken(opening)
        try:
            if fill is not None:
                await fill(stream)
            await _unbroken(on_thread(self._catalog.create, row))
            try:
                if declare is not None:
                    await _unbroken(declare(stream))
                await _unbroken(on_thread(self._homes.finish, home))
            except BaseException:
                await on_thread(self._catalog.take_back, row)
                raise
        except BaseException:
            await stream.close()
            raise
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
            old = self._configs.get(config.name)
            self._require_no_copies(config)
            config = rules.check_update(
                config,
                self._configs,
                name=name,
                pedantic=pedantic,
                limits=self.limits,
                max_duplicate_window=self._max_duplicate_window,
                consumers=consumers,
            )
            assert old is not None
            stream = self.stream(config.name)
            self._configs[config.name] = config
            try:
                await on_thread(self._declare, config)
                await stream.reconfigure(config)
            except BaseException as error:
                self._configs[config.name] = old
                await self._take_back(old)
                if isinstance(error, OSError | DiskError | sqlite3.Error):
                    raise _failed("stream_update", str(error)) from error
                raise
            for observer in self._observers:
                observer.on_changed(stream, old)
            return stream

    async def _take_back(self, old: StreamConfig) -> None:
        """Declare the old config again, later if the disk refuses: a restart must not find the new one."""
        if await self._has_declared(old):
            return
        self._retries.start(self._keep_taking_back(old), f"take back {old.name}")

    async def _keep_taking_back(self, old: StreamConfig) -> None:
        """Try until it is declared, or a newer config is."""
        while self._configs.get(old.name) is old:
            await asyncio.sleep(TAKE_BACK_S)
            async with self._lock(old.name):
                if self._configs.get(old.name) is not old or await self._has_declared(old):
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
            row = self._rows.get(name)
            if row is None:
                raise api_error("stream_not_found")
            try:
                await on_thread(self._record_deletion, row)
            except (sqlite3.Error, DiskError) as error:
                raise _failed("stream_delete", str(error)) from error
            stream = self._streams.pop(name, None)
            under_way = await self._close(stream) if stream is not None else None
            del self._configs[name], self._rows[name]
            self._offline.pop(name, None)
            self._failed.discard(name)
            self._orphans.discard(name)
            # An opening in progress continues in its directory, which must not become another stream's
            # before.
            under_way = under_way or self._openings.get(name)
            if under_way is None or under_way.done():
                await self._discard(row)
            else:
                self._in_background(self._discard(row, under_way))

    def _record_deletion(self, row: StreamRow) -> None:
        """Record the deletion durably, even if the engine stops now."""
        if row.name in self._orphans:
            self._catalog.record_deletion(row.identity, row.account, row.name)
            return
        try:
            self._homes.find(row)
            is_there = True
        except UnreadableIdentityError:
            # The next start reads it again, and removes the directory only if it has this identity.
            is_there = True
        except IdentityError:
            # Nothing to remove. If its directory reappears, it must not be removed either.
            is_there = False
        self._catalog.delete(self._folder, row.name, tombstone=is_there)

    async def _discard(self, row: StreamRow, under_way: asyncio.Task[None] | None = None) -> None:
        """Discard the directories of a removed stream; if that fails, the next open does it."""
        if under_way is not None:
            await asyncio.wait({under_way})
        in_memory = self._in_memory.root / row.directory
        if in_memory.exists():
            self._remove(self._in_memory, [await on_thread(self._in_memory.discard, in_memory)])
        try:
            home = await on_thread(self._homes.find, row)
            self._remove(self._homes, [await on_thread(self._homes.discard, home)], row.identity)
        except Error as error:
            logger.warning("cannot remove the files of stream %r until the next start: %s", row.name, error)

    def _remove(self, directories: Directories, trash: list[Path], deleted: str = "") -> None:
        """Remove directories in the background, and then the record of the deletion."""

        async def remove() -> None:
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

        if trash:
            self._in_background(remove())

    def _in_background(self, work: Coroutine[None, None, None]) -> None:
        self._removals.start(work, "remove streams")

    def _lock(self, name: str) -> asyncio.Lock:
        lock = self._locks.get(name)
        if lock is None:
            lock = self._locks[name] = asyncio.Lock()
        return lock


async def _unbroken(step: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of the step; a cancellation in the meantime is deferred to the next await.

    A thread continues when its awaiter is cancelled, and must not find its directory removed.
    """
    task = asyncio.ensure_future(step)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        current = asyncio.current_task()
        assert current is not None
        current.cancel()
        return task.result()


def _readable(row: StreamRow) -> StreamConfig:
    """Return the config of a row as far as it can be read."""
    try:
        return decode_config(row.config.encode())[0]
    except Error:
        return StreamConfig(name=row.name)


def _listens(config: StreamConfig, subject: str) -> bool:
    return any(collides(subject, ours) for ours in config.subjects)


def _failed(row: str, err: str) -> ApiError:
    return api_error(row, err=err)
