"""Reads every site at an interval, once for all browsers, and keeps the history."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from headwater.console.history import NumberHistory
from headwater.console.rates import recorded, stream_rates
from headwater.console.site_connection import SiteConnection
from headwater.console.site_reader import SiteReader
from headwater.console.snapshot import SiteSnapshot
from headwater.console.watched_site import WatchedSite
from headwater.errors import Error

logger = logging.getLogger(__name__)

INTERVAL_S = 1.0
IDLE_FACTOR = 10
"""While no browser listens, sites are read this many times less often."""
READ_SHARE = 0.2
"""The share of time for which a site may be read: a large one, or one that is busy, is read less often."""
STREAM_S = 0.002
"""The least pause for each stream of a site: a list costs an engine about 30 µs of CPU time per stream."""
LONGEST_S = 30.0
"""The longest pause while a browser listens."""


class SampledSite:
    """One site: how to reach it, what was read last, and its past."""

    def __init__(self, site: WatchedSite) -> None:
        self.site = site
        self.connection = SiteConnection(site)
        self.reader = SiteReader(self.connection)
        self.history = NumberHistory()
        self.snapshot = SiteSnapshot(site.name, 0.0)
        self.rates: dict[str, float] = {}
        """Messages a second by stream."""

    async def read(self) -> None:
        """Read the site and record its numbers."""
        before = self.snapshot
        after = await self.reader.read()
        if after.at_s != before.at_s:
            self.rates = stream_rates(before, after)
            self.history.record(after.at_s, recorded(after, self.rates))
        self.snapshot = after


class Sampler:
    """All sites of the console; pages read from here and never wait for a site."""

    def __init__(self, sites: Sequence[WatchedSite], interval_s: float = INTERVAL_S) -> None:
        self.sites = {site.name: SampledSite(site) for site in sites}
        self.interval_s = interval_s
        self.listeners = 0
        """Browsers with an open stream of events."""
        self.version = 0
        """Grows with each read of a site."""
        self._changed = asyncio.Event()
        self._wanted = asyncio.Event()
        self._wants = 0
        """How often the sites were wanted: each site notices also those during its pause."""

    def site(self, name: str) -> SampledSite:
        """Return a site by its name."""
        if name not in self.sites:
            raise Error(f'there is no site "{name}"')
        return self.sites[name]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read all sites for the length of a block."""
        tasks = [
            asyncio.create_task(self._watch(each), name=f"watch {name}") for name, each in self.sites.items()
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for each in self.sites.values():
                await each.connection.close()

    def want(self) -> None:
        """Have the sites read soon, also while no browser listens."""
        self._wants += 1
        self._wanted.set()

    async def changes(self) -> AsyncIterator[int]:
        """Yield the version now, and each later one; versions that a slow reader missed are left out."""
        self.listeners += 1
        self._wanted.set()
        try:
            while True:
                seen, changed = self.version, self._changed
                yield seen
                if self.version == seen:
                    await changed.wait()
        finally:
            self.listeners -= 1

    async def _watch(self, site: SampledSite) -> None:
        while True:
            began_s = time.monotonic()
            try:
                await site.read()
            except Exception:
                # A reply that no server should send must not end the watch of a site.
                logger.exception("cannot read the site %s", site.site.name)
            self.version += 1
            self._changed.set()
            self._changed = asyncio.Event()
            await self._pause(time.monotonic() - began_s, len(site.snapshot.streams))

    async def _pause(self, read_s: float, streams: int) -> None:
        """Wait for the rest of the interval; longer while no browser listens, until one does."""
        period_s, wants = pace_s(self.interval_s, read_s, streams), self._wants
        await asyncio.sleep(period_s - read_s)
        if self.listeners == 0 and self._wants == wants:
            self._wanted.clear()
            try:
                await asyncio.wait_for(self._wanted.wait(), period_s * (IDLE_FACTOR - 1))
            except TimeoutError:
                pass


def pace_s(interval_s: float, read_s: float, streams: int = 0) -> float:
    """Return how long after its last read a site is read again, if that read took so long."""
    return max(interval_s, min(max(read_s / READ_SHARE, streams * STREAM_S), LONGEST_S), read_s)
