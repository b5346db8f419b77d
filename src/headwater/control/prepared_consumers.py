"""The consumers of streams that are about to be opened, read from the catalog and built on a thread.

A stream may have thousands of filters. Without this, inserting them would block the event loop. And a
stream whose consumers cannot be read is not opened: without them it would drop what they need.
"""

from __future__ import annotations

from contextlib import suppress
from typing import NamedTuple

from headwater.control.catalog import Catalog
from headwater.control.catalog_rows import ConsumerRow
from headwater.delivery.tallies import Tallies
from headwater.errors import Error
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire.consumer_json import decode_config


class DeclaredConsumers(NamedTuple):
    """The consumers of one stream as the catalog has them."""

    rows: list[ConsumerRow]
    tallies: Tallies | None
    """Their filters, if they are built already."""


class PreparedConsumers:
    """The consumers of an account's streams from `prepare` until `take`."""

    def __init__(self, catalog: Catalog, folder: str) -> None:
        self._catalog = catalog
        self._folder = folder
        """The account's folder in the store."""
        self._by_name: dict[str, tuple[Stream, DeclaredConsumers]] = {}
        """The streams, each with its consumers."""

    async def prepare(self, stream: Stream) -> None:
        """Read the consumers of a stream and build their filters; raise if the catalog cannot be read."""
        self._by_name[stream.name] = stream, await on_thread(self._read, stream.name)

    def _read(self, stream: str) -> DeclaredConsumers:
        rows, filters = self._catalog.consumers(self._folder, stream), []
        for row in rows:
            with suppress(Error):  # it is reported when the stream is opened
                filters.append(decode_config(row.config.encode()).filters)
        return DeclaredConsumers(rows, Tallies.of_many(filters))

    def take(self, stream: Stream) -> DeclaredConsumers:
        """Return what was prepared for a stream, and forget it; if nothing was, read the catalog now."""
        prepared, declared = self._by_name.pop(stream.name, (None, None))
        if declared is not None and prepared is stream:
            return declared
        return DeclaredConsumers(self._catalog.consumers(self._folder, stream.name), None)
