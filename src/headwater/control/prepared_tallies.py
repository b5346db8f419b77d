"""The tallies of streams that are about to be opened, built on a thread from the filters in the catalog.

A stream may have thousands of filters. Without this, inserting them would hold up the event loop.
"""

from __future__ import annotations

import logging
from contextlib import suppress

from headwater.control.catalog import Catalog
from headwater.delivery.tallies import Tallies
from headwater.errors import Error
from headwater.stream.stream import Stream
from headwater.threads import on_thread
from headwater.wire.consumer_json import decode_config

logger = logging.getLogger(__name__)


class PreparedTallies:
    """The tallies of an account's streams from `prepare` until `take`."""

    def __init__(self, catalog: Catalog, folder: str) -> None:
        self._catalog = catalog
        self._folder = folder
        """The account's folder in the store."""
        self._by_name: dict[str, tuple[Stream, Tallies]] = {}
        """The streams, each with its tallies."""

    async def prepare(self, stream: Stream) -> None:
        """Build the tallies of a stream's consumers; after an error they are built when it is opened."""
        try:
            self._by_name[stream.name] = stream, await on_thread(self._tallies_of, stream.name)
        except Exception as error:
            logger.warning("stream %s: its filters are built later: %s", stream.name, error)

    def _tallies_of(self, stream: str) -> Tallies:
        filters = []
        for row in self._catalog.consumers(self._folder, stream):
            with suppress(Error):  # it is reported when the stream is opened
                filters.append(decode_config(row.config.encode()).filters)
        return Tallies.of_many(filters)

    def take(self, stream: Stream) -> Tallies | None:
        """Return the tallies that were built for a stream, if any, and forget them."""
        prepared, tallies = self._by_name.pop(stream.name, (None, None))
        return tallies if prepared is stream else None
