"""Creating a stream: directory, messages if it is restored, row of the catalog; all of them or nothing."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import StreamRow
from headwater.control.directories import AccountDirectories
from headwater.control.stream_removals import StreamRemovals
from headwater.model.stream import Storage, StreamConfig
from headwater.stream.services import Services
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire.stream_json import encode_config

Fill = Callable[[Stream], Coroutine[Any, Any, None]]
"""Writes messages to a new stream before any client sees it."""
_T = TypeVar("_T")


class StreamCreation:
    """Creates the streams of one account."""

    def __init__(
        self,
        folder: str,
        catalog: Catalog,
        directories: AccountDirectories,
        removals: StreamRemovals,
        services: Services,
    ) -> None:
        self._folder = folder
        """The account's folder in the store."""
        self._catalog = catalog
        self._directories = directories
        self._removals = removals
        self._services = services

    async def create(
        self, config: StreamConfig, fill: Fill | None, declare: Fill | None
    ) -> tuple[Stream, StreamRow]:
        """Return a new stream once it is durably declared; on any error nothing of it is left."""
        homes, in_memory = self._directories
        row = self._new_row(config)
        home = await _unbroken(on_thread(homes.make, row))
        directory = home
        try:
            if config.storage is Storage.MEMORY:
                directory = await _unbroken(on_thread(in_memory.make, row))
            stream = await self._fill_and_declare(config, fill, declare, row, directory, home)
        except BaseException:
            self._removals.remove(homes, [await on_thread(homes.discard, home)])
            if directory != home:
                self._removals.remove(in_memory, [await on_thread(in_memory.discard, directory)])
            raise
        return stream, row

    def _new_row(self, config: StreamConfig) -> StreamRow:
        identity = uuid.uuid4().hex
        return StreamRow(
            self._folder,
            config.name,
            encode_config(config).decode(),
            self._services.clock.now_ns(),
            identity,
            self._directories.homes.free_name(config.name, identity),
        )

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
                await _unbroken(on_thread(self._directories.homes.finish, home))
            except BaseException:
                await on_thread(self._catalog.take_back, row)
                raise
        except BaseException:
            await stream.close()
            raise
        return stream


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
