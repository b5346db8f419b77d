"""The state counts as a real nats-server does: redeliveries, floors, what is pending."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import nats
import pytest

from headwater.delivery.state import ConsumerState
from headwater.model.consumer import ConsumerConfig
from headwater.wire.ack_subject import AckSubject, parse_ack_subject
from headwater.wire.consumer_json import decode_config
from servers import nats_server

SEEDS = range(9)
PLACE = ("consumer_seq", "stream_seq")
BODIES = {"ack": b"+ACK", "nak": b"-NAK", "term": b"+TERM", "progress": b"+WPI"}
Numbers = tuple[int, ...]


class Pair:
    """One consumer of a real server, and a state that gets the same calls."""

    def __init__(self, client: Any, seed: int) -> None:
        self.client = client
        self.name = f"c{seed}"
        self.chance = random.Random(seed)
        self.wanted: dict[str, Any] = {
            "durable_name": self.name,
            "ack_policy": "all" if seed % 3 == 2 else "explicit",
            "ack_wait": 3600 * 10**9,
            "max_deliver": (-1, 1, 2, 3)[seed % 4],
        }
        if seed % 2:
            self.wanted["filter_subject"] = "s.1"
        self.seen: list[AckSubject] = []

    async def begin(self) -> None:
        """Create the consumer."""
        body = {"stream_name": "S", "config": self.wanted}
        created = await self.request(f"CONSUMER.CREATE.S.{self.name}", json.dumps(body).encode())
        config: ConsumerConfig = decode_config(json.dumps(created["config"]).encode())
        self.state = ConsumerState(config)
        self.inbox = await self.client.subscribe(f"inbox.{self.name}")

    async def request(self, subject: str, body: bytes = b"") -> Any:
        """Return the answer to a request of the API."""
        reply = await self.client.request(f"$JS.API.{subject}", body, timeout=60)
        return json.loads(reply.data)

    async def step(self) -> None:
        """Pull some messages, or settle one that was seen."""
        kind = self.chance.choice(["pull", "pull", "ack", "ack", "nak", "term", "progress"])
        if kind == "pull":
            await self.pull(self.chance.randint(1, 3))
        elif self.seen:
            await self.settle(kind, self.chance.choice(self.seen))

    async def pull(self, batch: int) -> None:
        """Take messages as the server gives them, and see that the state gives the same."""
        subject = f"$JS.API.CONSUMER.MSG.NEXT.S.{self.name}"
        request = json.dumps({"batch": batch, "no_wait": True}).encode()
        await self.client.publish(subject, request, reply=f"inbox.{self.name}")
        for _ in range(batch):
            message = await self.inbox.next_msg(timeout=60)
            again = self.state.next_redelivery()
            if not message.reply:
                assert again is None
                return
            ack = parse_ack_subject(message.reply.encode())
            assert ack is not None
            assert again in (None, ack.stream_seq)
            assert self.state.deliver(ack.stream_seq, 1) == (ack.consumer_seq, ack.delivered_count)
            self.seen.append(ack)

    async def settle(self, kind: str, ack: AckSubject) -> None:
        """Say the same of a message to both."""
        subject = b"$JS.ACK.%s.%s.%d.%d.%d.%d.%d" % ack
        await self.client.request(subject.decode(), BODIES[kind], timeout=60)
        if kind == "nak":
            self.state.nak(ack.stream_seq, None, 1)
        elif kind == "progress":
            self.state.progress(ack.stream_seq, 1)
        else:
            self.state.ack(ack.stream_seq, ack.consumer_seq, 1)

    async def numbers(self) -> tuple[Numbers, Numbers]:
        """Return what the state shows, and what the server does."""
        info = await self.request(f"CONSUMER.INFO.S.{self.name}")
        state = self.state
        places = [place[key] for place in (info["delivered"], info["ack_floor"]) for key in PLACE]
        mine = [getattr(place, key) for place in (state.delivered, state.ack_floor) for key in PLACE]
        return (
            (*mine, state.num_ack_pending, state.num_redelivered),
            (*places, info["num_ack_pending"], info["num_redelivered"]),
        )


async def compare() -> dict[int, list[tuple[Numbers, Numbers]]]:
    """Return the numbers of both after every step, by seed."""
    compared: dict[int, list[tuple[Numbers, Numbers]]] = {}
    async with nats_server(jetstream=True) as server:
        client = await nats.connect(server.client_url)
        stream = client.jetstream(timeout=60)
        await stream.add_stream(name="S", subjects=["s.>"])
        for number in range(60):
            await stream.publish(f"s.{number % 3}", b"")
        for seed in SEEDS:
            pair = Pair(client, seed)
            await pair.begin()
            compared[seed] = []
            for _ in range(60):
                await pair.step()
                compared[seed].append(await pair.numbers())
        await client.close()
    return compared


@pytest.fixture(scope="module")
def compared() -> dict[int, list[tuple[Numbers, Numbers]]]:
    """All numbers of all seeds."""
    return asyncio.run(compare())


@pytest.mark.parametrize("seed", SEEDS)
def test_every_step_leaves_the_same_numbers(
    seed: int, compared: dict[int, list[tuple[Numbers, Numbers]]]
) -> None:
    mine, real = zip(*compared[seed], strict=True)
    assert mine == real
