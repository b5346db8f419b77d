"""Sites on one machine: their servers, engines and one shared Spark, started in order, stopped in reverse.

1. Every nats-server, then the links between them.
2. Every engine, then the streams that the file declares.
3. One replicator, which shares its Spark among all engines.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from headwater.bus.embedded import find_server
from headwater.bus.handshake import greets
from headwater.errors import Error
from headwater.model.counted import counted
from headwater.site.api_client import api_client
from headwater.site.child import Child, start_all, stop_all
from headwater.site.declaring import Outcome, declare
from headwater.site.engines import EngineChild, EngineWatch, engine_name
from headwater.site.journal_servers import without_leader
from headwater.site.layout import SiteFolders
from headwater.site.links import LinkWatch, links_of
from headwater.site.outage_switch import OutageSwitch
from headwater.site.outages import forget_outages
from headwater.site.readiness import check_machine
from headwater.site.run_record import RunRecord, remove_record, running, take_folder, write_record
from headwater.site.status import REPLICATOR
from headwater.site.topology import Node, Site

LINK_WAIT_S = 20.0
ELECTION_WAIT_S = 60.0
SERVING_WAIT_S = 60.0
WATCH_S = 1.0
_PROGRAM = (sys.executable, "-m", "headwater")

Say = Callable[[str], None]


@dataclass(frozen=True)
class FleetOptions:
    """Options of the sites' processes."""

    spark_master: str = "local[2]"
    spark_driver_memory: str = "512m"
    with_spark: bool = True
    with_streams: bool = True
    files: tuple[str, ...] = ()
    nodes: str = ""
    """The number of nodes of every site, if it is not that of the file."""


class Fleet:
    """All processes of a topology."""

    def __init__(self, layout: SiteFolders, options: FleetOptions, say: Say) -> None:
        self._layout = layout
        self._topology = layout.topology
        self._options = options
        self._say = say
        self._environment = {k: v for k, v in os.environ.items() if not k.startswith("HEADWATER_")}
        self._children: list[Child] = []
        self._engines = EngineWatch()
        self._watch = LinkWatch(self._topology, layout.directory)
        self._switch = OutageSwitch(layout, self._wait_for_journals)
        self._is_ready = False

    async def run(self) -> None:
        """Run until cancelled. All processes are stopped in any case."""
        async with AsyncExitStack() as stack:
            lock = take_folder(self._layout.directory)
            stack.callback(lock.close)
            stack.callback(remove_record, self._layout.directory)
            began = time.monotonic()
            check_machine(self._topology, self._environment, with_spark=self._options.with_spark)
            self._layout.write()
            forget_outages(self._layout.directory)
            await self._start(stack)
            self._is_ready = True
            self._record()
            self._say(f"ready in {time.monotonic() - began:.1f} s")
            while True:
                await asyncio.sleep(WATCH_S)
                await self._switch.look()
                self._watch.topology = self._switch.topology
                await self._watch.look()
                self._engines.look()
                self._record()

    async def _start(self, stack: AsyncExitStack) -> None:
        await self._together(stack, [self._server(s, n) for s in self._topology.sites for n in s.nodes])
        self._say(f"{counted(len(self._children), 'nats-server')} started")
        await self._wait_for_links()
        await self._wait_for_journals()
        engines = [
            self._engine(name, n) for name in self._topology.engines for n in self._layout.numbers(name)
        ]
        await self._together(stack, engines)
        await self._wait_for_serving()
        self._say(f"{counted(len(engines), 'engine')} started")
        for outcome in await self._declare() if self._options.with_streams else ():
            self._say(str(outcome))
        if self._options.with_spark:
            self._say("starting Spark")
            await self._together(stack, [self._replicator()])
            self._say("Spark is running")

    async def _together(self, stack: AsyncExitStack, children: list[Child]) -> None:
        """Start processes concurrently; if one fails, the others are stopped."""
        # All at the same time: a standby must not take over while the serving engine is stopped.
        stack.push_async_callback(stop_all, children)
        self._children += children
        await start_all(children)
        self._record()

    def _server(self, site: Site, node: Node) -> Child:
        config = self._layout.server_config(site, node)

        async def listens(child: Child) -> bool:
            return await greets(node.host, node.port) and await greets(node.host, node.leaf_port)

        command = [find_server(), "-c", str(config)]
        log = config.with_suffix(".log")
        child = Child(f"nats-server {node.name}", command, log, listens, self._environment)
        self._switch.of(site.name).servers.append(child)
        return child

    def _engine(self, name: str, number: int) -> Child:
        settings = self._layout.engine_settings(name, number)

        async def says_so(child: Child) -> bool:
            return "headwater is ready" in child.said or "headwater waits" in child.said

        command = [*_PROGRAM, "serve", "--config", str(settings)]
        log = settings.with_suffix(".log")
        child = Child(engine_name(name, number), command, log, says_so, self._environment)
        self._engines.add(EngineChild(name, number, child, self._layout.store(name, number)))
        self._switch.of(name).engines.append(child)
        return child

    def _replicator(self) -> Child:
        named = []
        for name in self._topology.engines:
            serving = self._engines.serving(name) or 1
            store = store_id(self._layout.store(name, serving))
            named.append(f"--engine={store}={self._layout.engine_settings(name, serving)}")

        async def says_so(child: Child) -> bool:
            return "Spark is running" in child.said

        command = [
            *(*_PROGRAM, "replicator", "--master", self._options.spark_master),
            *("--spark-driver-memory", self._options.spark_driver_memory),
            *named,
        ]
        log = self._layout.directory / "replicator.log"
        return Child(REPLICATOR, command, log, says_so, self._environment)

    async def _wait_for_links(self) -> None:
        """Wait a while until all links are up. Continue without links that are not."""
        deadline = time.monotonic() + LINK_WAIT_S
        links = await self._watch.look()
        while any(not link.is_up for link in links) and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            links = await self._watch.look()
        if links_of(self._topology):
            self._say(f"{sum(link.is_up for link in links)} of {len(links)} leaf links are up")
        for link in links:
            if not link.is_up:
                self._say(f"the link from {link.site} to {link.to} for {link.account} is not up")

    async def _wait_for_journals(self) -> None:
        """Wait until the servers of each journal have elected a leader: before that they refuse a stream."""
        deadline = time.monotonic() + ELECTION_WAIT_S
        stopped = self._switch.applied.stopped
        waiting = await without_leader(self._topology, stopped)
        while waiting and time.monotonic() < deadline:
            await asyncio.sleep(0.1)
            waiting = await without_leader(self._topology, stopped)
        for name in waiting:
            self._say(f"the servers of the journal of {name} have no leader yet")

    async def _wait_for_serving(self) -> None:
        """Wait until one engine of each site serves: at first all of them may wait."""
        deadline = time.monotonic() + SERVING_WAIT_S
        self._engines.look()
        while any(not self._engines.serving(name) for name in self._topology.engines):
            if time.monotonic() > deadline:
                raise Error("no engine serves: see the logs of the engines")
            await asyncio.sleep(0.05)
            self._engines.look()

    async def _declare(self) -> list[Outcome]:
        """Create or update the declared streams in order, and return the outcomes."""
        outcomes = []
        for site in self._topology.sites:
            for account in site.business:
                wanted = [stream for stream in site.streams if stream.account == account.name]
                if wanted:
                    async with api_client(site, account, self._layout.seed(site, account)) as client:
                        outcomes += [await declare(client, site, stream) for stream in wanted]
        return outcomes

    def _record(self) -> None:
        children = tuple(
            running(child.name, child.pid, child.restarts)
            for child in self._children
            if child.pid is not None
        )
        record = RunRecord(
            running("headwater site", os.getpid()),
            self._options.files,
            self._is_ready,
            children,
            self._engines.states,
            {child.name: child.restarts for child in self._children},
            self._switch.applied,
            self._switch.problem,
            self._options.nodes,
        )
        write_record(self._layout.directory, record)


def store_id(store: Path) -> str:
    """Return the id by which a replicator finds the engine of a store."""
    try:
        catalog = sqlite3.connect(f"file:{store}/catalog.db?mode=ro", uri=True)
        try:
            row = catalog.execute("SELECT value FROM store WHERE key = 'id'").fetchone()
        finally:
            catalog.close()
    except sqlite3.Error as error:
        raise Error(f"the catalog of {store} cannot be read: {error}") from None
    return str(row[0])
