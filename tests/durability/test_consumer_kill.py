"""An engine killed again and again under consumers forgets no confirmed ack, and loses no message."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import nats
import pytest
from nats.aio.client import Client

from durability.worker import Ledger, Worker
from engines import RunningEngine, engine
from rounds import choose_seed, rounds

ROUNDS = rounds(8)
ACK_WAIT_NS = 5_000_000_000
MAX_DELIVER = 3
PATIENCE_ROUNDS = 1_200
SEED = choose_seed()
# A stream's retention, how likely its messages are acknowledged rather than handed back, and its consumer.
STREAMS: dict[str, tuple[str, float, dict[str, Any]]] = {
    "limits": ("limits", 0.9, {}),
    "workqueue": ("workqueue", 0.9, {}),
    "interest": ("interest", 0.9, {}),
    "handed_back": ("limits", 0.2, {"max_deliver": MAX_DELIVER}),
}
# So much is folded that consumers read from the head and from the body.
OPTIONS = ("--fold-messages", "50", "--fold-interval-s", "0.05")


class Publisher:
    """Publishes numbered messages, each until it is acknowledged, under an id that lets it be stored once."""

    def __init__(self, subject: str) -> None:
        self._subject = subject
        self.stored: list[str] = []

    async def work(self, client: Client) -> None:
        """Publish while the engine runs."""
        while client.is_connected:
            name = f"{self._subject}-{len(self.stored)}"
            with suppress(nats.errors.Error):
                reply = await client.request(
                    self._subject, name.encode(), timeout=10, headers={"Nats-Msg-Id": name}
                )
                assert "error" not in json.loads(reply.data), reply.data
                self.stored.append(name)


async def ask(client: Client, request: str, body: Any = None) -> dict[str, Any]:
    """Return the answer to an API request that must not fail."""
    reply = await client.request(f"$JS.API.{request}", json.dumps(body or {}).encode(), timeout=20)
    answer: dict[str, Any] = json.loads(reply.data)
    assert "error" not in answer, answer
    return answer


async def connect(running: RunningEngine) -> Client:
    """Return a connection that breaks when the engine and its server do."""
    return await nats.connect(running.client_url, allow_reconnect=False, connect_timeout=60, error_cb=_ignore)


async def _ignore(error: Exception) -> None:
    """Take no notice: the server is killed on purpose."""


async def declare(client: Client, name: str, retention: str, **config: Any) -> None:
    """Make a stream and its consumer."""
    stream = {"name": name, "subjects": [f"{name}.x"], "storage": "file", "retention": retention}
    await ask(client, f"STREAM.CREATE.{name}", stream)
    consumer = {"durable_name": "c", "ack_policy": "explicit", "ack_wait": ACK_WAIT_NS, **config}
    await ask(client, f"CONSUMER.DURABLE.CREATE.{name}.c", {"stream_name": name, "config": consumer})


async def one_life(running: RunningEngine, chance: Random, works: list[Any]) -> None:
    """Let all clients work until the engine is killed at a random moment, then start it again."""
    client = await connect(running)
    tasks = [asyncio.create_task(work.work(client)) for work in works]
    await asyncio.sleep(chance.uniform(0.02, 0.6))
    await running.kill()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await client.close()
    await running.start()


async def drained(client: Client, name: str, works: list[Worker]) -> dict[str, Any]:
    """Have the remaining messages delivered, and return the consumer's state after that."""
    tasks = [asyncio.create_task(work.work(client)) for work in works]
    try:
        for _ in range(PATIENCE_ROUNDS):
            info = await ask(client, f"CONSUMER.INFO.{name}.c")
            if not info["num_pending"] and not info["num_ack_pending"]:
                return info
            await asyncio.sleep(0.05)
        raise AssertionError(f"something is left: {info}")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@dataclass
class Lives:
    """What is left after all lives of an engine."""

    ledgers: dict[str, Ledger]
    stored: dict[str, set[str]]
    """The messages that were acknowledged to their publishers."""
    consumers: dict[str, dict[str, Any]]
    states: dict[str, dict[str, Any]]
    log: str


async def live(directory: Path, seed: int) -> Lives:
    """Kill an engine under publishers and consumers again and again, then deliver what is left."""
    chance = Random(seed)
    ledgers = {name: Ledger() for name in STREAMS}
    workers = {name: Worker(name, "c", ledgers[name], chance, settle=STREAMS[name][1]) for name in STREAMS}
    publishers = {name: Publisher(f"{name}.x") for name in STREAMS}
    lives = Lives(ledgers, {}, {}, {}, "")
    async with engine(directory, *OPTIONS) as running:
        client = await connect(running)
        for name, (retention, _, config) in STREAMS.items():
            await declare(client, name, retention, **config)
        await client.close()
        for life in range(ROUNDS):
            for ledger in ledgers.values():
                ledger.life = life
            await one_life(running, chance, [*workers.values(), *publishers.values()])
        client = await connect(running)
        for name, ledger in ledgers.items():
            ledger.life = ROUNDS
            lives.consumers[name] = await drained(client, name, [workers[name]])
            lives.states[name] = (await ask(client, f"STREAM.INFO.{name}"))["state"]
            lives.stored[name] = set(publishers[name].stored)
        await client.close()
    lives.log = running.log
    return lives


@pytest.fixture(scope="module")
def lives(tmp_path_factory: pytest.TempPathFactory) -> Lives:
    return asyncio.run(live(tmp_path_factory.mktemp("lives"), seed=SEED))


@pytest.mark.parametrize("name", STREAMS)
def test_a_confirmed_ack_is_never_forgotten(lives: Lives, name: str) -> None:
    ledger = lives.ledgers[name]
    assert len(ledger.confirmed) > ROUNDS, "too few were confirmed to tell"
    assert ledger.repeated == []


@pytest.mark.parametrize("name", ["limits", "workqueue", "interest"])
def test_every_message_is_acknowledged_in_the_end(lives: Lives, name: str) -> None:
    consumer, state = lives.consumers[name], lives.states[name]
    assert lives.stored[name] - lives.ledgers[name].done == set()
    assert consumer["ack_floor"]["stream_seq"] == consumer["delivered"]["stream_seq"]
    if name == "limits":
        assert consumer["ack_floor"]["stream_seq"] == state["last_seq"] == state["messages"]
    else:
        assert state["messages"] == 0


def test_no_message_is_delivered_oftener_than_allowed_but_for_what_a_crash_forgot(lives: Lives) -> None:
    ledger = lives.ledgers["handed_back"]
    assert lives.stored["handed_back"] - set(ledger.deliveries) == set()
    assert ledger.most_delivered == MAX_DELIVER
    # What is confirmed is recorded, and the delivery that it answers as well.
    assert max(ledger.refused.values()) <= MAX_DELIVER
    # A crash forgets the delivery that waits for its answer, and the one that the answer has just caused.
    assert max(ledger.deliveries.values()) <= MAX_DELIVER + 2 * ROUNDS


def test_the_engine_meets_nothing_unforeseen(lives: Lives) -> None:
    assert "Traceback" not in lives.log
