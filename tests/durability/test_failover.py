"""Engines that wait for one store: when the active one is killed, another takes over; nothing is lost."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import nats
import pytest
from nats.aio.client import Client

from doors import connected
from durability.fleet import Json, store_id_of
from durability.test_consumer_kill import ask, declare
from durability.test_stan_kill import Publisher as StanPublisher
from durability.test_stan_kill import Reader
from durability.worker import Ledger, Worker
from engines import READY_WORDS, RunningEngine
from java import missing_java
from on_spark.replicators import replicator
from rounds import choose_seed, rounds
from servers import nats_server
from stan_door import CLUSTER, StanClient
from waits import until

logger = logging.getLogger(__name__)

ROUNDS = rounds(4)
ENGINES = 3
SEED = choose_seed()
WAITING_WORDS = "headwater waits"


class Publisher:
    """Publishes numbered messages one after the other, each until it is acknowledged."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.stored: list[str] = []
        self.acked_at = 0.0
        self.is_done = False

    async def work(self, client: Client) -> None:
        """Publish until stopped."""
        while not self.is_done:
            name = f"{self._subject}-{len(self.stored)}"
            with suppress(nats.errors.Error):
                # Nobody to answer says so at once; a request that a killed engine took with it is sent again.
                reply = await client.request(
                    self._subject, name.encode(), timeout=0.25, headers={"Nats-Msg-Id": name}
                )
                assert "error" not in json.loads(reply.data), reply.data
                self.stored.append(name)
                self.acked_at = time.monotonic()


@dataclass
class Crossing:
    """What is left after every engine was killed and another took over."""

    stored: set[str]
    ledger: Ledger
    messages: int
    """How many messages the stream holds."""
    read: list[str]
    copied: list[str] | None
    """What a mirror of the stream holds; None where there is no Java."""
    channel: OldClients
    """The clients of NATS Streaming."""
    logs: list[str]
    silent_s: list[tuple[float, float]] = field(default_factory=list)
    """For how long nobody was acknowledged, each time, at either door."""


class OldClients:
    """A publisher and a subscriber of NATS Streaming that never reconnect."""

    def __init__(self, url: str) -> None:
        self.reader = Reader(url, "reader", durableName="mine")
        self._url = url
        self._publishing: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Publish and listen from now on."""
        client = StanClient(await connected(self._url), "publisher")
        assert (await client.connect()).error == ""
        await self.reader.live()
        self.publisher = StanPublisher(client)
        self._publishing = asyncio.create_task(self.publisher.run())

    async def end(self) -> None:
        """Return once everything that was published is acknowledged and was received."""
        assert self._publishing is not None
        self.publisher.stop()
        await asyncio.wait_for(self._publishing, 120)

        async def all_came() -> bool:
            return self.publisher.acknowledged <= self.reader.datas

        await until(all_came, "everything has come")


async def cross(directory: Path) -> Crossing:
    """Kill whichever engine serves, again and again, under publishers and consumers."""
    chance, publisher, ledger = Random(SEED), Publisher("kept.x"), Ledger()
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(nats_server(leaf=True))
        options = ("--nats", server.client_url, "--leaf", server.leaf_url, "--standby")
        doors = ("--replicator", "submitted", "--stan", CLUSTER)
        waiting: list[RunningEngine] = []
        for number in range(ENGINES):
            (directory / f"{number}").mkdir()
            running = RunningEngine(directory / f"{number}", options + doors, directory / "store")
            stack.push_async_callback(running.stop)
            running.launch()
            await running.says(WAITING_WORDS if number else READY_WORDS)
            waiting.append(running)
        serving = waiting.pop(0)
        client = await nats.connect(server.client_url)
        stack.push_async_callback(client.close)
        await declare(client, "kept", "limits")
        has_java = await _copied(client, stack, directory, server.client_url)
        channel = OldClients(server.client_url)
        await channel.begin()
        worker = Worker("kept", "c", ledger, chance, settle=0.9)
        tasks = [asyncio.create_task(work.work(client)) for work in (publisher, worker)]
        silent_s: list[tuple[float, float]] = []
        for life in range(ROUNDS):
            ledger.life = life
            await asyncio.sleep(chance.uniform(0.2, 1.0))
            counts = {engine: engine.log.count(READY_WORDS) for engine in waiting}
            await serving.kill()
            killed_at = time.monotonic()
            serving, dead = await _next_to_serve(counts), serving
            silent_s.append(await _silence((publisher, channel.publisher), killed_at))
            waiting.remove(serving)
            calls = dead.log.count(WAITING_WORDS)
            dead.launch()
            await dead.says(WAITING_WORDS, calls + 1)
            waiting.append(dead)
        publisher.is_done = True
        await tasks[0]
        await channel.end()

        async def consumed() -> bool:
            info = await ask(client, "CONSUMER.INFO.kept.c")
            return not info["num_pending"] and not info["num_ack_pending"]

        await until(consumed, "all is consumed", lambda: serving.log)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        state = (await ask(client, "STREAM.INFO.kept"))["state"]
        read = await _read(client, "kept", state)
        copied = None
        if has_java:

            async def caught_up() -> bool:
                return bool((await ask(client, "STREAM.INFO.copy"))["state"]["last_seq"] == state["last_seq"])

            await until(caught_up, "the mirror has caught up", lambda: serving.log)
            copied = await _read(client, "copy", state)
        logs = [engine.log for engine in (serving, *waiting)]
        return Crossing(
            set(publisher.stored), ledger, state["messages"], read, copied, channel, logs, silent_s
        )


async def _copied(client: Client, stack: AsyncExitStack, directory: Path, url: str) -> bool:
    """Have the stream mirrored by a replicator that outlives every engine; return False without Java."""
    if missing_java():
        return False
    await ask(client, "STREAM.CREATE.copy", {"name": "copy", "storage": "file", "mirror": {"name": "kept"}})
    store_id = store_id_of(directory / "store")
    await stack.enter_async_context(
        replicator(
            url,
            directory / "replicator.log",
            "--master",
            "local[1]",
            "--store",
            str(directory / "store"),
            store_id=store_id,
        )
    )
    return True


async def _read(client: Client, stream: str, state: Json) -> list[str]:
    """Return the data of every message of a stream without gaps."""
    manager, found = client.jetstream(), []
    for seq in range(state["first_seq"], state["last_seq"] + 1):
        found.append(((await manager.get_msg(stream, seq)).data or b"").decode())
    return found


async def _silence(publishers: tuple[Publisher, StanPublisher], since: float) -> tuple[float, float]:
    """Return how long it takes until each publisher is acknowledged again."""
    took_s: dict[Publisher | StanPublisher, float] = {}

    async def acked() -> bool:
        for publisher in publishers:
            if publisher.acked_at > since:
                took_s.setdefault(publisher, time.monotonic() - since)
        return len(took_s) == len(publishers)

    await until(acked, "publishes are acknowledged again")
    return took_s[publishers[0]], took_s[publishers[1]]


async def _next_to_serve(counts: dict[RunningEngine, int]) -> RunningEngine:
    """Return the engine that is ready since it was last asked."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        for engine, before in counts.items():
            if engine.log.count(READY_WORDS) > before:
                return engine
        await asyncio.sleep(0.01)
    raise AssertionError("no engine takes over:\n" + "\n".join(engine.log for engine in counts))


@pytest.fixture(scope="module")
def crossing(tmp_path_factory: pytest.TempPathFactory) -> Crossing:
    return asyncio.run(cross(tmp_path_factory.mktemp("crossing")))


def test_nothing_that_was_acknowledged_is_lost_or_stored_twice(crossing: Crossing) -> None:
    assert len(crossing.stored) > ROUNDS
    assert crossing.stored - set(crossing.read) == set()
    assert len(crossing.read) == len(set(crossing.read)) == crossing.messages


def test_every_message_is_consumed_and_no_confirmed_ack_forgotten(crossing: Crossing) -> None:
    assert set(crossing.read) - crossing.ledger.done == set()
    assert crossing.ledger.repeated == []


def test_a_mirror_is_copied_whichever_engine_serves(crossing: Crossing) -> None:
    if crossing.copied is None:
        pytest.skip("mirrors are copied on Spark, and there is no Java")
    assert crossing.copied == crossing.read


def test_clients_of_nats_streaming_continue_without_connecting_again(crossing: Crossing) -> None:
    channel = crossing.channel
    assert len(channel.publisher.acknowledged) > ROUNDS
    assert channel.publisher.acknowledged - channel.reader.datas == set()
    assert channel.reader.first_seqs == sorted(channel.reader.first_seqs)


def test_another_engine_took_over_each_time(crossing: Crossing) -> None:
    assert len(crossing.silent_s) == ROUNDS
    assert sum(log.count(READY_WORDS) for log in crossing.logs) == ROUNDS + 1
    assert not any("Traceback" in log for log in crossing.logs)
    logger.warning("silent for %s s", [f"{ours:.2f} and {old:.2f}" for ours, old in crossing.silent_s])
