"""Applies outages to running sites: ends and starts their processes, disables and enables their links."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from headwater.errors import Error
from headwater.site.child import Child, start_all, stop_all
from headwater.site.layout import SiteFolders
from headwater.site.links import has_wanted_links
from headwater.site.outages import (
    Outages,
    cut,
    healed,
    link_name,
    read_outages,
    started,
    stopped,
    with_cuts,
)
from headwater.site.topology import Site, Topology

LINK_WAIT_S = 30.0
_POLL_S = 0.1

Step = Callable[[], Awaitable[None]]


class LinkStateError(Error):
    """A link did not go down, or was not restored."""


@dataclass
class SiteProcesses:
    """The processes of one site."""

    servers: list[Child] = field(default_factory=list)
    engines: list[Child] = field(default_factory=list)


class OutageSwitch:
    """What is stopped and cut now, and how to change it."""

    def __init__(self, layout: SiteFolders, servers_ready: Step) -> None:
        """Prepare; `servers_ready` is awaited after a site's servers have started, before its engines."""
        self._layout = layout
        self._servers_ready = servers_ready
        self._processes = {site.name: SiteProcesses() for site in layout.topology.sites}
        self.applied = Outages()
        self.problem = ""
        """Why the last request could not be met, empty if it was."""

    def of(self, site: str) -> SiteProcesses:
        """Return the processes of a site, to be filled by who makes them."""
        return self._processes[site]

    @property
    def topology(self) -> Topology:
        """Return the sites with the links that are cut now."""
        return with_cuts(self._layout.topology, self.applied.cut)

    async def look(self) -> bool:
        """Meet what was asked for since the last look; return whether anything was.

        A failure is recorded. It ends nothing else, and is tried again with the next request.
        """
        wanted = read_outages(self._layout.directory)
        if wanted.number == self.applied.number:
            return False
        found = [await self._attempt(step) for step in self._steps(wanted)]
        self.problem = "; ".join(problem for problem in found if problem)
        self.applied = msgspec.structs.replace(self.applied, number=wanted.number)
        return True

    async def _attempt(self, step: Step) -> str:
        """Take a step; return why it failed, empty if it did not."""
        try:
            await step()
        except (Error, OSError) as error:
            return str(error)
        return ""

    def _steps(self, wanted: Outages) -> list[Step]:
        """Return what differs: links come first, so that a site that starts opens no cut link."""
        now = self.applied
        return [
            *(partial(self._cut, name) for name in sorted({*wanted.cut} - {*now.cut})),
            *(partial(self._heal, name) for name in sorted({*now.cut} - {*wanted.cut})),
            *(partial(self._stop, name) for name in sorted({*wanted.stopped} - {*now.stopped})),
            *(partial(self._start, name) for name in sorted({*now.stopped} - {*wanted.stopped})),
        ]

    async def _stop(self, name: str) -> None:
        self.applied = stopped(self.applied, name)
        await stop_all(self.of(name).engines)
        await stop_all(self.of(name).servers)

    async def _start(self, name: str) -> None:
        """Start a site; if a process fails, the site stays stopped."""
        self.applied = started(self.applied, name)
        try:
            await start_all(self.of(name).servers)
            await self._servers_ready()
            await start_all(self.of(name).engines)
        except BaseException:
            await self._stop(name)
            raise

    async def _cut(self, name: str) -> None:
        """Cut a link; if the server does not close it, it stays connected."""
        self.applied = cut(self.applied, name)
        site = self._reload(name)
        if not await self._is_settled(site):
            self.applied = healed(self.applied, name)
            self._reload(name)
            raise LinkStateError(f"the link {name} did not go down: nats-server 2.12 or later is needed")

    async def _heal(self, name: str) -> None:
        self.applied = healed(self.applied, name)
        site = self._reload(name)
        if not await self._is_settled(site):
            raise LinkStateError(f"the link {name} is no longer cut, but not up after {LINK_WAIT_S:g} s")

    def _reload(self, link: str) -> Site:
        """Let the servers that open a link read which links are cut; return their site."""
        topology = self.topology
        site = next(s for s in topology.sites if any(link_name(s, remote) == link for remote in s.remotes))
        self._layout.with_topology(topology).write_servers(site)
        for child in self.of(site.name).servers:
            child.reload()
        return site

    async def _is_settled(self, site: Site) -> bool:
        """Wait until a site's links are as wanted; return whether they are."""
        if {site.name, *(remote.site for remote in site.remotes)} & {*self.applied.stopped}:
            return True
        deadline = time.monotonic() + LINK_WAIT_S
        while not await has_wanted_links(site):
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_POLL_S)
        return True
