"""Consumers of a real stream with a driven clock, whose deliveries and events are kept instead of sent."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from headwater.delivery.advisories import ConsumerAdvisories
from headwater.delivery.consumer import Consumer
from headwater.delivery.consumers import StreamConsumers
from headwater.delivery.outlet import Outlet
from headwater.delivery.pull import PullConsumer
from headwater.delivery.push import PushConsumer
from headwater.delivery.state import ConsumerState
from headwater.delivery.timers import Timers
from headwater.model.consumer import AckPolicy, ConsumerConfig
from stream.streams import Workshop, everything, publish
from waits import until

ROUNDS = 60_000
SECOND = 1_000_000_000


class Delivery(NamedTuple):
    """One message as it left for a client; a status has no stored subject."""

    to: bytes
    reply: bytes
    subject: bytes
    headers: bytes
    data: bytes

    @property
    def tokens(self) -> list[int]:
        """Return delivered count, stream sequence, consumer sequence, time and pending."""
        return [int(token) for token in self.reply.split(b".")[4:]]


class KeptOutlet(Outlet):
    """An outlet whose listeners a test names, and that keeps what is sent."""

    def __init__(self) -> None:
        super().__init__(None)
        self.opened = True
        self.listeners: set[tuple[bytes, bytes]] = set()
        self.sent: list[Delivery] = []
        self.turns = 0
        """How many turns were taken."""

    async def turn(self) -> None:
        self.turns += 1
        await super().turn()

    @property
    def is_open(self) -> bool:
        return self.opened

    def listens(self, subject: bytes, queue: bytes = b"") -> bool:
        return (subject, queue) in self.listeners

    def deliver(
        self,
        subject: bytes,
        replies: Sequence[bytes],
        stored_subjects: Sequence[bytes],
        headers: Sequence[bytes],
        datas: Sequence[bytes],
    ) -> int:
        rows = zip(replies, stored_subjects, headers, datas, strict=True)
        self.sent += [Delivery(subject, *row) for row in rows]
        return sum(map(len, datas))

    def status(self, subject: bytes, headers: bytes, reply: bytes = b"") -> None:
        self.sent.append(Delivery(subject, reply, b"", headers, b""))

    def take(self) -> list[Delivery]:
        """Return what was sent, and forget it."""
        sent, self.sent = self.sent, []
        return sent


class Desk:
    """The consumers of one stream."""

    def __init__(self, workshop: Workshop, consumers: StreamConsumers, outlet: KeptOutlet) -> None:
        self.clock = workshop.clock
        self.consumers = consumers
        self.stream = consumers.stream
        self.outlet = outlet
        self.frames: list[bytes] = []

    def add(self, name: str = "C", *, start_seq: int = 1, only: Sequence[int] = (), **fields: Any) -> Any:
        """Add a consumer and return it; it acknowledges explicitly and waits 30 s if nothing else is said."""
        consumer = self.make(name, start_seq=start_seq, only=only, **fields)
        self.consumers.add(consumer)
        return consumer

    def make(self, name: str = "C", *, start_seq: int = 1, only: Sequence[int] = (), **fields: Any) -> Any:
        """Return a consumer that does not take part yet."""
        fields = {"ack_policy": AckPolicy.EXPLICIT, "ack_wait": 30 * SECOND, "max_deliver": -1, **fields}
        config = ConsumerConfig(name=name, durable_name=name, **fields)
        kind: type[Consumer] = PushConsumer if config.is_push else PullConsumer
        state = ConsumerState(config, start_seq)
        return kind(config, self.clock.now_ns(), state, self.consumers, only=only)

    def listen(self, subject: bytes, queue: bytes = b"") -> None:
        """Add a subscriber to a subject."""
        self.outlet.listeners.add((subject, queue))
        self.consumers.on_interest()

    def leave(self, subject: bytes, queue: bytes = b"") -> None:
        """Remove the subscriber of a subject."""
        self.outlet.listeners.discard((subject, queue))
        self.consumers.on_interest()

    def pull(self, consumer: Consumer, to: bytes = b"box", **request: Any) -> None:
        """Send a pull request whose reply subject has a subscriber."""
        self.outlet.listeners.add((to, b""))
        consumer.pull(json.dumps(request or {"batch": 1}).encode(), to)

    async def publish(self, *subjects: bytes) -> None:
        """Store a message on each subject, its data the subject."""
        await publish(self.stream, *((subject, subject) for subject in subjects))

    async def sent(self, count: int) -> list[Delivery]:
        """Return so many deliveries and statuses, once they were sent, and no more."""
        await until(lambda: len(self.outlet.sent) >= count)
        await self.rest()
        taken = self.outlet.take()
        assert len(taken) == count, taken
        return taken

    async def rest(self) -> None:
        """Wait until all tasks have nothing to do."""
        for _ in range(20):
            await asyncio.sleep(0)
        await self.stream.publishing.settled()

    def ack(self, delivery: Delivery, body: bytes = b"+ACK", reply: bytes = b"") -> None:
        """Have an acknowledgement arrive."""
        self.consumers.acks.items.append((delivery.reply, reply, b"", body))
        self.consumers.acks.flush()

    def events(self) -> list[tuple[str, dict[str, Any]]]:
        """Return the advisories sent so far as subject and fields, and forget them."""
        frames, self.frames[:] = list(self.frames), []
        return [(f.split(b" ")[1].decode(), json.loads(f.split(b"\r\n", 1)[1])) for f in frames]


async def delivered(running: Desk, consumer: Any, count: int) -> list[Delivery]:
    """Return so many messages, pulled."""
    running.pull(consumer, consumer.name.encode(), batch=count)
    return await running.sent(count)


async def left(running: Desk) -> list[int]:
    """Return the sequences that the stream still holds."""
    await running.stream.publishing.settled()
    return [message.seq for message in await everything(running.stream)]


def confirmed(workshop: Workshop) -> list[bytes]:
    """Return the reply subjects of confirmed acks."""
    lines = bytes(workshop.answers.frames).split(b"\r\n")
    return [line.split(b" ")[1] for line in lines if line.startswith(b"PUB ack")]


@asynccontextmanager
async def desk(workshop: Workshop, **config: Any) -> AsyncIterator[Desk]:
    """Run the consumers of a stream."""
    async with workshop.stream(**config) as stream:
        outlet, timers = KeptOutlet(), Timers(workshop.clock)
        frames: list[bytes] = []
        advisories = ConsumerAdvisories(frames.append, workshop.clock)
        consumers = StreamConsumers(stream, outlet, timers, workshop.clock, advisories)
        running = Desk(workshop, consumers, outlet)
        running.frames = frames
        try:
            yield running
        finally:
            await consumers.close()
            timers.close()
