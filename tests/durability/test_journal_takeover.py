"""Engines without a common disk lose each other, their directories and their journal; nothing is lost.

In turn the engine that serves is killed and its directory deleted, alone or with the nats-server that leads
the journal and its disk; it is stopped until another one has taken over; its connections to the journal are
cut or stall, until another engine has taken over or only until it notices. `TEST_ROUNDS` says how often.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import nats
import pytest

from cables import Cable, CableRoom
from durability.fleet import store_id_of
from durability.takeover_clients import Clients
from engines import READY_WORDS, RunningEngine
from headwater.errors import Error
from headwater.journal.jetstream_journal import JetStreamPlace
from java import missing_java
from journal_cluster import JournalCluster, journal_cluster
from on_spark.replicators import replicator
from replication.fake_engine import SECRET
from rounds import rounds
from seaweed import SeaweedServer
from servers import nats_server
from stan_door import CLUSTER
from waits import until

WAITING_WORDS = "headwater waits"
LOST_WORDS = "was taken from this engine"
NOTICED_WORDS = "nothing is acknowledged until it works again"

QUICK = ("--fold-interval-s", "0.3", "--replicator", "submitted", "--replication-secret", SECRET.decode())
DOORS = ("--standby", "--stan", CLUSTER)
KILLED, WITH_LEADER, STOPPED, CUT, STALLED, NOTICED = (
    "killed",
    "killed with the journal's leader",
    "stopped",
    "cut off",
    "stalled",
    "cut off until noticed",
)
JETSTREAM_FAULTS = (WITH_LEADER, STOPPED, CUT, STALLED, WITH_LEADER, KILLED, WITH_LEADER, NOTICED)
"""In few rounds all that only a NATS cluster has; in many, half of all engines die with the leader."""
OBJECT_FAULTS = (STOPPED, NOTICED, KILLED, CUT, STALLED)


class Journal(Protocol):
    """A journal that engines reach through cables of their own."""

    @property
    def ports(self) -> list[int]:
        """Return where its servers listen."""
        ...

    def options(self, ports: list[int]) -> tuple[str, ...]:
        """Return the options of an engine that reaches it at these ports."""
        ...

    async def lose_leader(self) -> None:
        """Kill the server that leads it, with its disk; the one that was lost before starts again."""
        ...


class InCluster:
    """A journal in a NATS cluster, and tables in a folder."""

    def __init__(self, cluster: JournalCluster, directory: Path) -> None:
        self._cluster = cluster
        self._place = cluster.place("LAKE")
        self._tables = ("--tables", f"file://{directory}/tables")
        self._lost: list[int] = []

    @property
    def ports(self) -> list[int]:
        return self._cluster.ports

    def options(self, ports: list[int]) -> tuple[str, ...]:
        return (*self._tables, "--journal", f"{self._cluster.url_at(ports)}/LAKE")

    async def lose_leader(self) -> None:
        while self._lost:
            self._cluster.start(self._lost.pop())
        await until(lambda: _is_whole(self._cluster, self._place), "the journal has all its copies again")
        self._lost.append(await self._cluster.leader(self._place))
        self._cluster.kill(self._lost[-1], with_disk=True)


async def _is_whole(cluster: JournalCluster, place: JetStreamPlace) -> bool:
    with suppress(Error, TimeoutError, KeyError):
        replicas = (await cluster.info(place))["cluster"]["replicas"]
        return len(replicas) == 2 and all(peer["current"] and not peer.get("offline") for peer in replicas)
    return False


class InBucket:
    """A journal and tables in one bucket."""

    def __init__(self, server: SeaweedServer) -> None:
        self._address = server.new_bucket()
        self.ports = [server.port]

    def options(self, ports: list[int]) -> tuple[str, ...]:
        there = replace(self._address, endpoint=f"http://127.0.0.1:{ports[0]}")
        tables = ("--tables", f"{there.url}/tables", "--tables-endpoint", str(there.endpoint))
        return (*tables, "--journal", f"{there.url}/journal")

    async def lose_leader(self) -> None:
        raise AssertionError("a bucket has no leader")


class CabledEngine:
    """An engine with a directory and connections to the journal of its own."""

    def __init__(self, running: RunningEngine, room: CableRoom, cables: list[Cable]) -> None:
        self.running = running
        self._room = room
        self._cables = cables

    @property
    def log(self) -> str:
        """Return all that the engine has said."""
        return self.running.log

    def cut(self) -> None:
        """Break its connections to the journal, and refuse new ones."""
        for each in self._cables:
            self._room.cut(each)

    def freeze(self) -> None:
        """Let its connections to the journal stall."""
        for each in self._cables:
            self._room.freeze(each)

    def restore(self, fault: str) -> None:
        """Undo a cut or a stall."""
        for each in self._cables:
            self._room.thaw(each) if fault == STALLED else self._room.restore(each)

    async def serves(self) -> None:
        """Return once it serves."""
        await self.running.says(READY_WORDS)


class Engines:
    """Engines of one store, one of which serves."""

    def __init__(self, directory: Path, journal: Journal, options: tuple[str, ...], room: CableRoom) -> None:
        self._directory = directory
        self._journal = journal
        self._options = options
        self._room = room
        self.all: list[CabledEngine] = []

    def launch(self) -> CabledEngine:
        """Start an engine with an empty directory."""
        home = self._directory / f"engine-{len(self.all)}"
        home.mkdir()
        cables = [self._room.lay(port) for port in self._journal.ports]
        there = self._journal.options([each.port for each in cables])
        added = CabledEngine(RunningEngine(home, (*self._options, *there)), self._room, cables)
        added.running.launch()
        self.all.append(added)
        return added

    async def add_standby(self, serving: CabledEngine) -> tuple[CabledEngine, CabledEngine]:
        """Return the engine that serves, and a new one that waits.

        On a busy machine the journal may be silent for so long that the new one takes over at once. That is
        no error: then it serves, and another one waits.
        """
        while True:
            added = self.launch()
            await until(
                lambda: WAITING_WORDS in added.log or READY_WORDS in added.log,  # noqa: B023
                "the engine waits or serves",
                lambda: added.log,  # noqa: B023
            )
            if WAITING_WORDS in added.log:
                return serving, added
            serving = added

    async def lose(self, fault: str, serving: CabledEngine, waiting: CabledEngine, clients: Clients) -> bool:
        """Inflict a fault on the engine that serves; return whether the other one serves now."""
        if fault == NOTICED:
            return await self._blink(serving, waiting, clients)
        await self._inflict(fault, serving)
        await waiting.serves()
        await clients.progress()
        if fault == STOPPED:
            os.kill(serving.running.pid, signal.SIGCONT)
        if fault in (CUT, STALLED):
            serving.restore(fault)
        if fault in (STOPPED, CUT, STALLED):
            assert await serving.running.ended() != 0, serving.log
            assert LOST_WORDS in serving.log
        return True

    async def _inflict(self, fault: str, serving: CabledEngine) -> None:
        if fault == STOPPED:
            os.kill(serving.running.pid, signal.SIGSTOP)
        elif fault == CUT:
            serving.cut()
        elif fault == STALLED:
            serving.freeze()
        else:
            await serving.running.kill()
            shutil.rmtree(serving.running.store)
        if fault == WITH_LEADER:
            await self._journal.lose_leader()

    async def _blink(self, serving: CabledEngine, waiting: CabledEngine, clients: Clients) -> bool:
        """Cut the engine off until it notices; it continues unless the other engine took over first."""
        seen = serving.log.count(NOTICED_WORDS)
        serving.cut()
        await serving.running.says(NOTICED_WORDS, seen + 1)
        serving.restore(NOTICED)
        await clients.progress()
        return READY_WORDS in waiting.log

    async def stop(self) -> None:
        """End all engines."""
        for each in self.all:
            with suppress(ProcessLookupError):
                os.kill(each.running.pid, signal.SIGCONT)
            await each.running.stop()


@asynccontextmanager
async def running(
    tmp_path: Path, journal: Journal, replicas: int, has_copies: bool
) -> AsyncIterator[tuple[Engines, CabledEngine, CabledEngine, Clients]]:
    """Run a nats-server for clients, an engine that serves, one that waits, and clients."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(leaf=True))
        room = stack.enter_context(CableRoom())
        attached = ("--nats", server.client_url, "--leaf", server.leaf_url)
        engines = Engines(tmp_path, journal, (*QUICK, *DOORS, *attached), room)
        stack.push_async_callback(engines.stop)
        serving = engines.launch()
        await serving.serves()
        if has_copies:
            store_id = store_id_of(serving.running.store)
            log, how = tmp_path / "replicator.log", ("--master", "local[1]")
            await stack.enter_async_context(replicator(server.client_url, log, *how, store_id=store_id))
        serving, waiting = await engines.add_standby(serving)
        client = await nats.connect(server.client_url)
        stack.push_async_callback(client.close)
        clients = Clients(client, server.client_url, replicas, has_copies=has_copies)
        stack.push_async_callback(clients.stop)
        await clients.start()
        await clients.progress()
        yield engines, serving, waiting, clients


async def take_over_again_and_again(
    tmp_path: Path, journal: Journal, faults: tuple[str, ...], replicas: int, *, has_copies: bool
) -> None:
    """Inflict one fault in each round, and audit at the end."""
    async with running(tmp_path, journal, replicas, has_copies) as (engines, serving, waiting, clients):
        done: Counter[str] = Counter()
        for number in range(len(faults)):
            fault = faults[number]
            if await engines.lose(fault, serving, waiting, clients):
                serving, waiting = await engines.add_standby(waiting)
            done[fault] += 1
        await clients.progress()
        await clients.finish()
        print(f"{len(faults)} rounds: {dict(done)}; {clients.counts}")
        logs = "".join(each.log for each in engines.all)
        assert "Traceback" not in logs, logs[logs.find("Traceback") - 2000 :][:6000]


def chosen(faults: tuple[str, ...], usual: int) -> tuple[str, ...]:
    """Return the fault of each round."""
    count = rounds(usual)
    return tuple(faults[number % len(faults)] for number in range(count))


@pytest.mark.timeout(0)
async def test_nothing_is_lost_with_a_journal_of_objects(
    tmp_path: Path, seaweed_server: SeaweedServer
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seaweed_server.environment.items():
            patch.setenv(name, value)
        faults = chosen(OBJECT_FAULTS, 2)
        has_copies = len(faults) > 2 and not missing_java()
        if not has_copies:
            print("without a mirror and a source: they take Java and more rounds (TEST_ROUNDS)")
        await take_over_again_and_again(tmp_path, InBucket(seaweed_server), faults, 1, has_copies=has_copies)


@pytest.mark.timeout(0)
async def test_nothing_is_lost_with_a_journal_that_loses_its_leader_too(tmp_path: Path) -> None:
    if reason := missing_java():
        print(f"without a mirror and a source: {reason}")
    with journal_cluster() as cluster:
        faults = chosen(JETSTREAM_FAULTS, 4)
        has_copies = not reason
        await take_over_again_and_again(
            tmp_path, InCluster(cluster, tmp_path), faults, 3, has_copies=has_copies
        )
