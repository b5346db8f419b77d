"""NATS Streaming under kill -9 of engine and clients: at least once, in order on first delivery, never lost.

`TEST_ROUNDS=30` makes it long, `TEST_SEED` repeats a run.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from doors import connected
from engines import engine
from headwater.bus.connection import NoRespondersError
from headwater.errors import BusError
from headwater.model.unique import unique_id
from headwater.wire import stan_messages as wire
from headwater.wire.stan_messages import FIRST
from rounds import choose_seed, rounds
from servers import nats_server
from stan_door import CLUSTER, Heard, StanClient
from waits import until

ROUNDS = rounds(3)
CHANNEL = "orders.eu"
WINDOW = 40
WITHIN_S = 120.0


class Publisher:
    """Publishes numbered messages, each again until it is acknowledged."""

    def __init__(self, client: StanClient) -> None:
        self.acknowledged: set[bytes] = set()
        self.acked_at = 0.0
        self._client = client
        self._count = 0
        self._stopped = False

    async def run(self) -> None:
        """Publish until stopped, and return once every message is acknowledged."""
        await asyncio.gather(*(self._lane() for _ in range(WINDOW)))

    def stop(self) -> None:
        """Begin nothing more."""
        self._stopped = True

    async def _lane(self) -> None:
        while not self._stopped:
            self._count += 1
            data = b"%d" % self._count
            await self._publish(data)
            self.acknowledged.add(data)
            self.acked_at = time.monotonic()
            await asyncio.sleep(0.005)

    async def _publish(self, data: bytes) -> None:
        client = self._client
        body = wire.PubMsg(
            clientID=client.client_id, guid=unique_id(), subject=CHANNEL, data=data, connID=client.conn_id
        ).SerializeToString()
        subject = f"{client.subjects.pubPrefix}.{CHANNEL}".encode()
        while True:
            try:
                frame = await client.connection.request(subject, body, 0.5)
            except (NoRespondersError, TimeoutError, BusError):
                await asyncio.sleep(0.02)
                continue
            answer = wire.decode(wire.PubAck, frame[3])
            assert answer.error == "", answer.error
            return


class Reader:
    """A subscription over all lives of its client."""

    def __init__(self, url: str, client_id: str, **fields: Any) -> None:
        self._url = url
        self._client_id = client_id
        self._fields = {"startPosition": FIRST, "ackWaitInSecs": 2, "maxInFlight": 20, **fields}
        self._heard: list[Heard] = []
        self._client: StanClient | None = None

    async def live(self) -> None:
        """Connect and subscribe, however long the engine or the probe of a former life takes."""
        async with asyncio.timeout(WITHIN_S):
            connection = await connected(self._url)
            while True:
                client = StanClient(connection, self._client_id)
                try:
                    if not (await client.connect()).error:
                        break
                except (NoRespondersError, TimeoutError):
                    pass
                await asyncio.sleep(0.05)
            self._client = client
            self._heard.append(await client.subscribe(CHANNEL, **self._fields))

    async def die(self) -> None:
        """Be gone without a word, as kill -9 leaves a client."""
        assert self._client is not None
        self._heard[-1].acks = False
        await self._client.connection.close()

    @property
    def seqs(self) -> list[int]:
        """Return all sequences in the order of arrival."""
        return [seq for heard in self._heard for seq in heard.seqs]

    @property
    def datas(self) -> set[bytes]:
        """Return the data of all received messages."""
        return {data for heard in self._heard for data in heard.datas}

    @property
    def first_seqs(self) -> list[int]:
        """Return each sequence once, in the order of its first arrival."""
        return list(dict.fromkeys(self.seqs))


@pytest.mark.parametrize("attached", [False, True], ids=["embedded", "attached"])
async def test_nothing_acknowledged_is_lost_and_first_deliveries_are_in_order(
    tmp_path: Path, attached: bool
) -> None:
    seed = choose_seed()
    rng = random.Random(seed)
    async with AsyncExitStack() as stack:
        options: tuple[str, ...] = ("--stan", CLUSTER, "--fold-interval-s", "0.1", "--stan-probe-s", "0.2")
        if attached:
            server = await stack.enter_async_context(nats_server(leaf=True))
            options = (*options, "--nats", server.client_url, "--leaf", server.leaf_url)
        running = await stack.enter_async_context(engine(tmp_path, *options))
        url = server.client_url if attached else running.client_url
        publisher_client = StanClient(await connected(url), "publisher")
        assert (await publisher_client.connect()).error == ""
        publisher = Publisher(publisher_client)
        steady = Reader(url, "steady")
        durable = Reader(url, "durable", durableName="mine")
        group = [Reader(url, f"member{n}", qGroup="g", durableName="d") for n in range(3)]
        for reader in (steady, durable, *group):
            await reader.live()
        publishing = asyncio.create_task(publisher.run())
        for _ in range(ROUNDS):
            flowing = len(publisher.acknowledged) + 2 * WINDOW
            await until(lambda flowing=flowing: len(publisher.acknowledged) > flowing, patience_s=WITHIN_S)  # type: ignore[misc]
            await asyncio.sleep(rng.uniform(0, 0.4))
            mortal = [durable, rng.choice(group)]
            victims = rng.sample(mortal, rng.randrange(3))
            for reader in victims:
                await reader.die()
            if rng.random() < 0.8:
                await asyncio.sleep(rng.uniform(0, 0.2))
                await running.kill()
                await running.start()
            for reader in victims:
                await reader.live()
        publisher.stop()
        await asyncio.wait_for(publishing, WITHIN_S)
        wanted = publisher.acknowledged
        assert len(wanted) > WINDOW
        await until(lambda: wanted <= steady.datas, patience_s=WITHIN_S)
        await until(lambda: wanted <= durable.datas, patience_s=WITHIN_S)
        await until(
            lambda: wanted <= {data for member in group for data in member.datas}, patience_s=WITHIN_S
        )
        for reader in (steady, durable):
            assert reader.first_seqs == sorted(reader.first_seqs)
        print(f"{len(wanted)} messages, {len(steady.seqs)} received, {len(durable.seqs)} by the durable")
