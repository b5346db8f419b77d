"""A client that pulls, acknowledges at random, and remembers what it was promised."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

BATCH = 20
EXPIRES_NS = 300_000_000
ANSWER_S = 10.0
CONFIRMED = 0.7
"""How many acks ask to be confirmed."""
PROMPT_S = 2.0
"""An ack that is sent later may cross with a redelivery that fell due: nothing is held against that one."""


@dataclass
class Ledger:
    """What one consumer received and acknowledged, over all runs of the engine."""

    life: int = 0
    deliveries: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    """How often the engine has confirmed that a message was not done."""
    done: set[str] = field(default_factory=set)
    """Messages that were acknowledged, confirmed or not."""
    confirmed: dict[str, int] = field(default_factory=dict)
    """Messages whose ack was confirmed, and in which life of the engine."""
    repeated: list[str] = field(default_factory=list)
    """Deliveries that must not have been."""
    most_delivered: int = 0

    def delivered(self, message: Msg) -> str:
        """Take note of a delivery; return which message it was."""
        name = message.data.decode()
        self.deliveries[name] += 1
        self.most_delivered = max(self.most_delivered, int(message.reply.split(".")[4]))
        if name in self.confirmed:
            self.repeated.append(f"{name}: confirmed in life {self.confirmed[name]}, again in {self.life}")
        return name


class Worker:
    """Pulls from one consumer until the connection breaks."""

    def __init__(self, stream: str, consumer: str, ledger: Ledger, chance: Random, *, settle: float) -> None:
        self._subject = f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}"
        self._ledger = ledger
        self._chance = chance
        self._settle = settle
        """How likely a message is acknowledged; the others are handed back."""

    async def work(self, client: Client) -> None:
        """Pull and acknowledge while the engine runs."""
        inbox = client.new_inbox()
        arrivals = await client.subscribe(inbox)
        while client.is_connected:
            request = {"batch": BATCH, "expires": EXPIRES_NS}
            await client.publish(self._subject, json.dumps(request).encode(), reply=inbox)
            await self._take(client, await self._batch(arrivals))

    async def _batch(self, arrivals: Subscription) -> list[Msg]:
        messages: list[Msg] = []
        while len(messages) < BATCH:
            try:
                message = await arrivals.next_msg(timeout=ANSWER_S)
            except NatsError:
                break
            if not message.reply:
                break  # a status: there are no more for now
            messages.append(message)
        return messages

    async def _take(self, client: Client, messages: list[Msg]) -> None:
        arrived = asyncio.get_running_loop().time()
        async with asyncio.TaskGroup() as answers:
            for message in messages:
                name = self._ledger.delivered(message)
                if self._chance.random() >= self._settle:
                    answers.create_task(self._hand_back(client, message, name))
                elif self._chance.random() < CONFIRMED:
                    answers.create_task(self._acknowledge(client, message, name, arrived))
                else:
                    self._ledger.done.add(name)
                    await client.publish(message.reply)

    async def _acknowledge(self, client: Client, message: Msg, name: str, arrived: float) -> None:
        self._ledger.done.add(name)
        life = self._ledger.life
        prompt = asyncio.get_running_loop().time() - arrived < PROMPT_S
        try:
            await client.request(message.reply, b"+ACK", timeout=ANSWER_S)
        except NatsError:
            return
        if prompt and life == self._ledger.life:
            self._ledger.confirmed[name] = life

    async def _hand_back(self, client: Client, message: Msg, name: str) -> None:
        try:
            await client.request(message.reply, b"-NAK", timeout=ANSWER_S)
        except NatsError:
            return
        self._ledger.refused[name] += 1
