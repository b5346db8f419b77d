"""Engines without a common disk: the one that serves is killed and its directory deleted; nothing is lost.

In turn the engine is killed, killed together with the nats-server that leads the journal and its disk, or
stopped until another engine has taken over and then continued. `TEST_ROUNDS` says how often.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig, StorageType

from engines import READY_WORDS, RunningEngine
from headwater.errors import Error
from headwater.journal.jetstream_journal import JetStreamPlace
from journal_cluster import JournalCluster, journal_cluster
from rounds import rounds
from seaweed import SeaweedServer
from servers import nats_server
from waits import until

ROUNDS = rounds(2)
WAITING_WORDS = "headwater waits"
QUICK = ("--fold-interval-s", "0.3", "--replicator", "submitted", "--standby")
NOT_YET = (nats.errors.Error, nats.js.errors.Error, asyncio.TimeoutError)


class Clients:
    """Publishers, a consumer and a key-value client that work all the while, and what they were promised."""

    def __init__(self, client: Client, replicas: int) -> None:
        self._client = client
        self._replicas = replicas
        self._js = client.jetstream(timeout=2)
        self.acked: list[str] = []
        self.confirmed: set[int] = set()
        """Sequences whose acknowledgement was confirmed."""
        self.returned: list[int] = []
        """Sequences that were delivered although their acknowledgement was confirmed."""
        self.value = 0
        self._is_done = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Declare everything, and work from now on."""
        await self._js.add_stream(
            name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE, num_replicas=self._replicas
        )
        await self._js.create_key_value(bucket="kv")
        await self._js.pull_subscribe("orders.>", durable="reader", stream="ORDERS")
        self._tasks = [asyncio.create_task(self._publish(number)) for number in range(8)]
        self._tasks += [asyncio.create_task(work()) for work in (self._read, self._set)]

    async def stop(self) -> None:
        """Return once the last request was answered."""
        self._is_done = True
        await asyncio.gather(*self._tasks)

    async def _publish(self, number: int) -> None:
        count = 0
        while not self._is_done:
            name = f"{number}-{count}"
            with suppress(*NOT_YET):
                reply = await self._client.request(
                    f"orders.{number}", name.encode(), timeout=2, headers={"Nats-Msg-Id": name}
                )
                if "error" not in json.loads(reply.data):
                    self.acked.append(name)
                    count += 1

    async def _read(self) -> None:
        while not self._is_done:
            with suppress(*NOT_YET):
                reader = await self._js.pull_subscribe_bind("reader", stream="ORDERS")
                while not self._is_done:
                    for message in await reader.fetch(5, timeout=1):
                        seq = message.metadata.sequence.stream
                        if seq in self.confirmed:
                            self.returned.append(seq)
                        await message.ack_sync(timeout=1)
                        self.confirmed.add(seq)

    async def _set(self) -> None:
        while not self._is_done:
            with suppress(*NOT_YET):
                await (await self._js.key_value("kv")).put("x", b"%d" % (self.value + 1))
                self.value += 1
            await asyncio.sleep(0.02)

    async def progress(self) -> None:
        """Return once every kind of client was answered again."""
        acked, confirmed, value = len(self.acked), len(self.confirmed), self.value
        await until(lambda: len(self.acked) > acked + 20, "publishers are acknowledged")
        await until(lambda: len(self.confirmed) > confirmed, "acknowledgements are confirmed")
        await until(lambda: self.value > value, "a key is set")

    async def audit(self) -> None:
        """Compare what the engine has with what was promised."""
        info = await self._js.stream_info("ORDERS")
        assert info.cluster is not None
        assert len(info.cluster.replicas or []) == self._replicas - 1
        config = ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=600)
        reader = await self._js.pull_subscribe("orders.>", stream="ORDERS", config=config)
        found: list[str] = []
        while len(found) < info.state.messages:
            found += [message.data.decode() for message in await reader.fetch(500, timeout=60)]
        assert len(found) == len(set(found)), "each message is there once"
        assert not set(self.acked) - set(found), "everything acknowledged is there"
        for number in range(8):
            mine = [int(name.split("-")[1]) for name in found if name.startswith(f"{number}-")]
            assert mine == sorted(mine), "in order"
        assert self.returned == [], "no confirmed message comes again"
        entry = await (await self._js.key_value("kv")).get("x")
        assert int(entry.value or b"0") >= self.value


class Engines:
    """Two engines with directories of their own, one of which serves."""

    def __init__(self, directory: Path, options: tuple[str, ...]) -> None:
        self._directory = directory
        self._options = options
        self._count = 0
        self.all: list[RunningEngine] = []

    def launch(self) -> RunningEngine:
        """Start an engine with an empty directory."""
        self._count += 1
        home = self._directory / f"engine-{self._count}"
        home.mkdir()
        running = RunningEngine(home, self._options)
        running.launch()
        self.all.append(running)
        return running

    async def add_standby(self, serving: RunningEngine) -> tuple[RunningEngine, RunningEngine]:
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

    async def stop(self) -> None:
        """End all engines."""
        for running in self.all:
            await running.stop()


@asynccontextmanager
async def running(
    tmp_path: Path, journal: str, tables: tuple[str, ...], replicas: int
) -> AsyncIterator[tuple[Engines, RunningEngine, RunningEngine, Clients]]:
    """Run a nats-server for clients, an engine that serves, one that waits, and clients."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(leaf=True))
        options = (*QUICK, *tables, "--journal", journal)
        engines = Engines(tmp_path, (*options, "--nats", server.client_url, "--leaf", server.leaf_url))
        stack.push_async_callback(engines.stop)
        serving = engines.launch()
        await serving.says(READY_WORDS)
        serving, waiting = await engines.add_standby(serving)
        client = await nats.connect(server.client_url)
        stack.push_async_callback(client.close)
        clients = Clients(client, replicas)
        await clients.start()
        await clients.progress()
        yield engines, serving, waiting, clients


async def take_over_again_and_again(
    tmp_path: Path,
    journal: str,
    tables: tuple[str, ...],
    faults: list[Callable[[], Awaitable[None]]],
    replicas: int,
) -> None:
    """Lose the engine that serves, and something of the journal, in each round."""
    async with running(tmp_path, journal, tables, replicas) as (engines, serving, waiting, clients):
        for number in range(ROUNDS):
            if number % 3 == 2:
                os.kill(serving.pid, signal.SIGSTOP)
            else:
                await serving.kill()
                shutil.rmtree(serving.store)
                await faults[number % len(faults)]()
            await waiting.says(READY_WORDS)
            await clients.progress()
            if number % 3 == 2:
                os.kill(serving.pid, signal.SIGCONT)
                assert await serving.ended() != 0, serving.log
                assert "was taken from this engine" in serving.log
            serving, waiting = await engines.add_standby(waiting)
        await clients.progress()
        await clients.stop()
        await clients.audit()


@pytest.mark.timeout(0)
async def test_nothing_is_lost_with_a_journal_of_objects(
    tmp_path: Path, seaweed_server: SeaweedServer
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seaweed_server.environment.items():
            patch.setenv(name, value)
        bucket = seaweed_server.new_bucket()
        tables = ("--tables", f"{bucket.url}/tables", "--tables-endpoint", str(bucket.endpoint))
        await take_over_again_and_again(tmp_path, f"{bucket.url}/journal", tables, [_nothing_more], 1)


@pytest.mark.timeout(0)
async def test_nothing_is_lost_with_a_journal_that_loses_its_leader_too(tmp_path: Path) -> None:
    with journal_cluster() as cluster:
        place = cluster.place("LAKE")
        lost: list[int] = []

        async def lose_leader() -> None:
            while lost:
                cluster.start(lost.pop())
            await until(lambda: _is_whole(cluster, place), "the journal has all its copies again")
            lost.append(await cluster.leader(place))
            cluster.kill(lost[-1], with_disk=True)

        tables = ("--tables", f"file://{tmp_path}/tables")
        journal = f"{cluster.url}/LAKE"
        await take_over_again_and_again(tmp_path, journal, tables, [lose_leader, _nothing_more], 3)


async def _is_whole(cluster: JournalCluster, place: JetStreamPlace) -> bool:
    with suppress(Error, TimeoutError, KeyError):
        replicas = (await cluster.info(place))["cluster"]["replicas"]
        return len(replicas) == 2 and all(peer["current"] and not peer.get("offline") for peer in replicas)
    return False


async def _nothing_more() -> None:
    pass
