"""Row pipelines while engine and replicator are killed: every result and every dead letter is stored once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from durability.fleet import store_id_of
from engines import RunningEngine, engine
from headwater.model.row_pipeline import KEY, RowPipeline, stored
from java import require_java
from on_spark.replicators import RunningReplicator, replicator
from rounds import choose_seed, rounds
from servers import nats_server
from waits import until

ROUNDS = rounds(2)
SCHEMA = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "items": {"type": "array", "items": {"type": "string"}},
        "by": {"type": "string"},
    },
}
SELECT = (
    "explode(transform(data.items, i -> concat(data.n DIV int(data.by), ' ', i))) AS data, 'out' AS subject"
)
VICTIMS = (["engine"], ["engine"], ["replicator"], ["engine"], ["engine", "replicator"])
"""Which parts a round kills, in turn."""
ROUND_S = 240
SPARK_S = 300
"""So long that it matters only when something is broken."""


class Shop:
    """A stream of orders, and two that copy it through pipelines, one of them with a limit per subject."""

    def __init__(self, url: str, running: RunningEngine, copying: RunningReplicator) -> None:
        self.url = url
        self.engine = running
        self.replicator = copying
        self.sent: list[dict[str, Any]] = []
        self._client: Client | None = None

    async def client(self) -> Client:
        return await nats.connect(self.url)

    async def declare(self) -> None:
        """Declare the streams, with pipelines that Spark checks."""
        client = await self.client()
        for name, more in (
            ("ORDERS", {"subjects": ["orders"], "metadata": {"headwater.schema": schema()}}),
            ("DEAD", {"subjects": ["dead"]}),
            ("OUT", piped("DEAD")),
            ("RULED", {**piped("DEAD"), "max_msgs_per_subject": 10_000_000}),
        ):
            config = {"name": name, "retention": "limits", "storage": "file", **more}
            answer = await self._declared(client, config)
            # A busy machine loads Spark SQL slowly.
            if "no replicator has checked" in str(answer.get("error")):
                answer = await self._declared(client, config)
            assert "error" not in answer, answer
        await client.close()

    async def _declared(self, client: Client, config: dict[str, Any]) -> dict[str, Any]:
        subject, body = f"$JS.lake.API.STREAM.CREATE.{config['name']}", json.dumps(config).encode()
        answer: dict[str, Any] = json.loads((await client.request(subject, body, timeout=150)).data)
        return answer

    async def publish(self, count: int, padding: int, chance: Random) -> None:
        """Publish orders, some of which fail; what was not acknowledged is published again."""
        for _ in range(count):
            n = len(self.sent)
            order = {
                "n": n,
                "items": ["x" * padding] * chance.choice([0, 1, 2, 5]),
                "by": chance.choice("11110y"),
            }
            await self._send(json.dumps(order).encode(), f"id-{n}")
            self.sent.append(order)

    async def _send(self, data: bytes, message_id: str) -> None:
        for _ in range(600):
            with suppress(nats.errors.Error, OSError, TimeoutError, asyncio.TimeoutError):
                if self._client is None or not self._client.is_connected:
                    self._client = await self.client()
                answer = await self._client.request(
                    "orders", data, timeout=5, headers={"Nats-Msg-Id": message_id}
                )
                if "error" not in json.loads(answer.data):
                    return
            self._client = None
            await asyncio.sleep(0.2)
        raise AssertionError("cannot publish")

    async def settle(self) -> None:
        """Wait until both targets have read everything."""
        await until(self.copied, "both targets have everything", lambda: self.replicator.log[-3000:], ROUND_S)

    async def copied(self) -> bool:
        """Return whether both targets have read everything."""
        with suppress(nats.errors.Error, OSError, TimeoutError, asyncio.TimeoutError):
            client = await self.client()
            for name in ("OUT", "RULED"):
                headers = {"Headwater-Progress": "1"}
                answer = await client.request(
                    f"$JS.lake.API.STREAM.INFO.{name}", b"", timeout=5, headers=headers
                )
                if json.loads(answer.data)["sources"][0]["headwater"]["seq"] < len(self.sent):
                    await client.close()
                    return False
            await client.close()
            return True
        return False


def schema() -> str:
    return json.dumps({"version": 1, "format": "json", "schema": SCHEMA})


def piped(dead_letters: str) -> dict[str, Any]:
    pipeline = RowPipeline(source="ORDERS", where="data.n % 7 <> 3", select=SELECT, dead_letters=dead_letters)
    return {"sources": [{"name": "ORDERS"}], "metadata": {KEY: stored([pipeline])}}


def expected(sent: list[dict[str, Any]]) -> tuple[list[str], list[int]]:
    """Return the results in order, and the numbers of the orders that fail."""
    results: list[str] = []
    dead: list[int] = []
    for order in sent:
        if order["n"] % 7 == 3:
            continue
        # Without items nothing is evaluated for one of them.
        if order["items"] and order["by"] != "1":
            dead.append(order["n"])
        else:
            results += (f"{order['n']} {item}" for item in order["items"])
    return results, dead


async def held(client: Client, stream: str) -> list[Msg]:
    js = client.jetstream(domain="lake")
    count = (await js.stream_info(stream)).state.messages
    subscription = await js.subscribe(">", stream=stream, ordered_consumer=True)
    found = [await subscription.next_msg(timeout=60) for _ in range(count)]
    await subscription.unsubscribe()
    return found


async def one_round(shop: Shop, victims: list[str], chance: Random) -> None:
    """Publish, kill parts at some moment, and start them again."""
    count, padding = chance.choice([(15, 10), (60, 20_000), (40, 300)])
    publishing = asyncio.create_task(shop.publish(count, padding, chance))
    await asyncio.sleep(chance.uniform(0.0, 2.5))
    if "engine" in victims:
        await shop.engine.kill()
    if "replicator" in victims:
        shop.replicator.kill()
        shop.replicator.start()
    if "engine" in victims:
        await shop.engine.start()
    await publishing
    if chance.random() < 0.5:  # otherwise the next round kills parts that are behind, or without Spark yet
        await shop.settle()


async def test_every_result_and_every_dead_letter_is_stored_once(tmp_path: Path) -> None:
    require_java()
    chance = Random(choose_seed())
    async with (
        nats_server(leaf=True) as server,
        engine(
            tmp_path,
            *("--nats", server.client_url, "--leaf", server.leaf_url, "--domain", "lake"),
            *("--replicator", "submitted"),
        ) as running,
    ):
        options = ("--store", str(running.store), "--master", "local[1]")
        async with replicator(
            server.client_url, tmp_path / "replicator.log", *options, store_id=store_id_of(running.store)
        ) as copying:
            shop = Shop(server.client_url, running, copying)
            await until(lambda: "Spark is running" in copying.log, "Spark runs", patience_s=SPARK_S)
            await shop.declare()
            await shop.publish(20, 10, chance)
            for number in range(ROUNDS):
                await one_round(shop, VICTIMS[number % len(VICTIMS)], chance)
            await shop.settle()
            client = await shop.client()
            results, dead = expected(shop.sent)
            assert [m.data.decode() for m in await held(client, "OUT")] == results
            assert [m.data.decode() for m in await held(client, "RULED")] == results
            letters = await held(client, "DEAD")
            assert all(m.headers and m.headers.get("Headwater-Error") for m in letters)
            by_target = Counter(
                (m.headers["Headwater-Target"], json.loads(m.data)["n"]) for m in letters if m.headers
            )
            assert by_target == Counter({(target, n): 1 for target in ("OUT", "RULED") for n in dead})
            await client.close()
