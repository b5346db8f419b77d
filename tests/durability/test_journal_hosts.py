"""Engines on hosts of their own, without a common disk: hosts are lost and links are pulled, nothing is lost.

A host is a network namespace. The journal (three nats-servers), the bucket with the tables and the clients
are in the center. `TEST_ROUNDS` says how often something happens to the host that serves. Without it
the test is skipped, because `test_journal_takeover.py` does much of the same.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
import pytest

from durability.takeover_clients import Clients
from engines import READY_WORDS, RunningEngine
from headwater.objects.address import BucketAddress
from hosts import Center, Host, center, missing
from journal_cluster import JournalCluster, journal_cluster
from replication.fake_engine import SECRET
from rounds import rounds
from seaweed import seaweed
from servers import RunningServer, nats_server
from stan_door import CLUSTER
from waits import until

QUICK = ("--fold-interval-s", "0.3", "--replicator", "submitted", "--replication-secret", SECRET.decode())
DOORS = ("--standby", "--stan", CLUSTER)
WAITING_WORDS, LOST_WORDS = "headwater waits", "was taken from this engine"
NOTICED_WORDS = "nothing is acknowledged until it works again"
PULLED, LOST, NOTICED = "link pulled", "host lost", "link pulled until noticed"
FAULTS = (PULLED, LOST, NOTICED)


class HostedEngine:
    """An engine, and the host that it is alone on."""

    def __init__(self, running: RunningEngine, host: Host) -> None:
        self.running = running
        self.host = host

    @property
    def log(self) -> str:
        """Return all that the engine has said."""
        return self.running.log


class Hosts:
    """Engines of one store, each on a host of its own."""

    def __init__(self, directory: Path, network: Center, options: tuple[str, ...]) -> None:
        self._directory = directory
        self._network = network
        self._options = options
        self.all: list[HostedEngine] = []

    async def add(self) -> HostedEngine:
        """Start an engine on a new host with an empty disk; return once it serves or waits."""
        host = self._network.add()
        home = self._directory / f"host-{len(self.all)}"
        home.mkdir()
        added = HostedEngine(RunningEngine(home, self._options, prefix=host.prefix), host)
        added.running.launch()
        self.all.append(added)
        await until(
            lambda: WAITING_WORDS in added.log or READY_WORDS in added.log, "it serves", lambda: added.log
        )
        return added

    async def lose(self, fault: str, serving: HostedEngine, waiting: HostedEngine, clients: Clients) -> None:
        """Inflict a fault on the engine that serves; return once clients are served again."""
        if fault == LOST:
            await serving.running.kill()
            shutil.rmtree(serving.running.store)
            serving.host.remove()
        else:
            serving.host.disconnect()
        if fault == NOTICED:
            await serving.running.says(NOTICED_WORDS)
            serving.host.connect()
            await clients.progress()
            return
        await waiting.running.says(READY_WORDS)
        await clients.progress()
        if fault == PULLED:
            serving.host.connect()
            assert await serving.running.ended() != 0, serving.log
            assert LOST_WORDS in serving.log

    async def stop(self) -> None:
        """End all engines."""
        for each in self.all:
            await each.running.stop()


def options(cluster: JournalCluster, address: BucketAddress, server: RunningServer) -> tuple[str, ...]:
    """Return the options of each engine: nothing that it uses is on its own host."""
    tables = ("--tables", f"{address.url}/tables", "--tables-endpoint", str(address.endpoint))
    attached = ("--nats", server.client_url, "--leaf", server.leaf_url)
    return (*QUICK, *DOORS, *attached, *tables, "--journal", f"{cluster.url}/LAKE")


@asynccontextmanager
async def running(
    directory: Path, network: Center, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[Hosts, Clients]]:
    """Run the servers of the center, one engine, and clients."""
    async with AsyncExitStack() as stack:
        store = stack.enter_context(seaweed())
        for name, value in store.environment.items():
            monkeypatch.setenv(name, value)
        cluster = stack.enter_context(journal_cluster())
        server = await stack.enter_async_context(nats_server(leaf=True))
        hosts = Hosts(directory, network, options(cluster, store.new_bucket(), server))
        stack.push_async_callback(hosts.stop)
        await (await hosts.add()).running.says(READY_WORDS)
        client = await nats.connect(server.client_url)
        stack.push_async_callback(client.close)
        clients = Clients(client, server.client_url, 3, has_copies=False)
        stack.push_async_callback(clients.stop)
        await clients.start()
        await clients.progress()
        yield hosts, clients


@pytest.mark.timeout(0)
async def test_nothing_is_lost_with_a_host_or_its_link(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = rounds(0)
    reason = missing() if count else "it takes long: TEST_ROUNDS=3, or make test-rounds"
    if reason is not None:
        pytest.skip(reason)
    done: Counter[str] = Counter()
    with center() as network:
        async with running(tmp_path, network, monkeypatch) as (hosts, clients):
            serving, waiting = hosts.all[0], await hosts.add()
            for number in range(count):
                while (
                    READY_WORDS in waiting.log
                ):  # it took over, in the last round or because it is busy here
                    serving, waiting = waiting, await hosts.add()
                fault = FAULTS[number % len(FAULTS)]
                await hosts.lose(fault, serving, waiting, clients)
                done[fault] += 1
            await clients.progress()
            await clients.finish()
            print(f"{dict(done)}; {clients.counts}")
            logs = "".join(each.log for each in hosts.all)
            assert "Traceback" not in logs, logs[logs.find("Traceback") - 2000 :][:6000]
