"""Clients of every kind that work while engines take over from each other, and what they were promised."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js import JetStreamContext
from nats.js.api import AckPolicy, ConsumerConfig, RetentionPolicy, StorageType, StreamConfig, StreamSource

from doors import connected
from headwater.bus.connection import NoRespondersError
from headwater.errors import BusError
from headwater.model.unique import unique_id
from headwater.wire import stan_messages as wire
from headwater.wire.stan_messages import FIRST
from stan_door import Heard, StanClient
from waits import until

NOT_YET = (nats.errors.Error, nats.js.errors.Error, asyncio.TimeoutError)
LANES = 2
PAUSE_S = 0.05
ACK_WAIT_S = 30
"""Longer than a client waits between a delivery and its confirmed ack, so that both do not cross."""
DRAIN_S = 150.0
CHANNEL = "letters"


class Publishers:
    """Publish numbered messages in lanes, each again until it is acknowledged."""

    def __init__(self, client: Client, stream: str) -> None:
        self._client = client
        self._stream = stream
        self._subject = stream.lower()
        self.acked: dict[int, str] = {}
        """Sequence to message, as acknowledged."""
        self.reused: list[str] = []
        """Sequences that were given to two messages."""
        self.is_done = False

    @property
    def count(self) -> int:
        """Return how many messages were acknowledged."""
        return len(self.acked)

    async def run(self) -> None:
        """Publish until it is enough, and return once everything begun is acknowledged."""
        await asyncio.gather(*map(self._lane, range(LANES)))

    async def _lane(self, lane: int) -> None:
        count = 0
        while not self.is_done:
            await self._publish(lane, f"{lane}-{count}")
            count += 1
            await asyncio.sleep(PAUSE_S)

    async def _publish(self, lane: int, name: str) -> None:
        while True:
            with suppress(*NOT_YET):
                reply = await self._client.request(
                    f"{self._subject}.{lane}", name.encode(), timeout=2, headers={"Nats-Msg-Id": name}
                )
                answer = json.loads(reply.data)
                if "error" not in answer:
                    self._promise(answer["seq"], name)
                    return
            await asyncio.sleep(PAUSE_S)

    def _promise(self, seq: int, name: str) -> None:
        if self.acked.setdefault(seq, name) != name:
            self.reused.append(f"{self._stream} {seq}: {self.acked[seq]} and {name}")

    def audit(self, found: dict[int, str]) -> None:
        """Compare the messages of the stream by their sequences with what was acknowledged."""
        assert self.reused == []
        assert len(found) == len(set(found.values())), "each message is there once"
        lost = {seq: name for seq, name in self.acked.items() if found.get(seq) != name}
        assert lost == {}, "everything acknowledged is there, under its sequence"
        for lane in range(LANES):
            mine = [int(name.split("-")[1]) for name in found.values() if name.startswith(f"{lane}-")]
            assert mine == sorted(mine), "in order"


class Consuming:
    """Takes messages of one consumer and has each ack confirmed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._seen: dict[int, str] = {}
        """The messages that were delivered, by their sequences."""
        self.confirmed: dict[int, float] = {}
        """The sequences whose ack was confirmed, and when."""
        self.returned: list[str] = []
        """Messages that were delivered although their ack was confirmed."""
        self.is_done = False

    @property
    def count(self) -> int:
        """Return how many acks were confirmed."""
        return len(self.confirmed)

    async def take(self, message: Msg, arrived: float) -> None:
        """Acknowledge a message that arrived at some time, and remember it if that was confirmed."""
        seq, name = message.metadata.sequence.stream, message.data.decode()
        assert self._seen.setdefault(seq, name) == name, "a sequence was given to two messages"
        # A second copy may have waited here while the first one was acknowledged.
        if arrived > self.confirmed.get(seq, arrived):
            late_s, count = arrived - self.confirmed[seq], message.metadata.num_delivered
            self.returned.append(f"{self._name} {seq}: {late_s:.3f} s later, delivery {count}")
        with suppress(*NOT_YET):
            await message.ack_sync(timeout=1)
            self.confirmed.setdefault(seq, time.monotonic())

    async def drained(self, publishers: Publishers) -> None:
        """Return once everything that was acknowledged to publishers was delivered; then check it.

        An ack that was not confirmed may have arrived, so that its message is not delivered again.
        """
        await until(
            lambda: publishers.acked.keys() <= self._seen.keys(),
            f"{self._name} consumes everything",
            lambda: f"missing: {sorted(publishers.acked.keys() - self._seen.keys())[:20]}",
            DRAIN_S,
        )
        assert self.returned == [], f"no confirmed message comes again: {self.returned[:5]}"
        wrong = {seq for seq, name in publishers.acked.items() if self._seen[seq] != name}
        assert wrong == set()


class Puller(Consuming):
    """A durable pull consumer."""

    def __init__(self, js: JetStreamContext, stream: str, replicas: int = 0) -> None:
        super().__init__(f"the pull consumer of {stream}")
        self._js = js
        self._stream = stream
        self._replicas = replicas

    async def declare(self) -> None:
        """Create the consumer."""
        config = ConsumerConfig(
            durable_name="puller",
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            num_replicas=self._replicas,
        )
        await self._js.add_consumer(self._stream, config)

    async def run(self) -> None:
        """Fetch and acknowledge until it is enough."""
        while not self.is_done:
            with suppress(*NOT_YET):
                reader = await self._js.pull_subscribe_bind("puller", stream=self._stream)
                while not self.is_done:
                    found = await reader.fetch(5, timeout=1)
                    arrived = time.monotonic()
                    for message in found:
                        await self.take(message, arrived)
            await asyncio.sleep(PAUSE_S)


class Pushed(Consuming):
    """A durable push consumer."""

    def __init__(self, client: Client, js: JetStreamContext, stream: str) -> None:
        super().__init__(f"the push consumer of {stream}")
        self._client = client
        self._js = js
        self._stream = stream
        self._inbox = client.new_inbox()

    async def declare(self) -> None:
        """Create the consumer."""
        config = ConsumerConfig(
            durable_name="pushed",
            deliver_subject=self._inbox,
            ack_policy=AckPolicy.EXPLICIT,
            ack_wait=ACK_WAIT_S,
            max_ack_pending=5,
        )
        await self._js.add_consumer(self._stream, config)

    async def run(self) -> None:
        """Acknowledge what is delivered until it is enough."""
        arrivals: asyncio.Queue[tuple[Msg, float]] = asyncio.Queue()

        async def arrive(message: Msg) -> None:
            arrivals.put_nowait((message, time.monotonic()))

        await self._client.subscribe(self._inbox, cb=arrive)
        while not self.is_done:
            with suppress(*NOT_YET):
                await self.take(*await asyncio.wait_for(arrivals.get(), 1))


class Keys:
    """Sets one key to ascending numbers."""

    def __init__(self, js: JetStreamContext) -> None:
        self._js = js
        self.count = 0
        """The last number that was stored for sure."""
        self._revisions: dict[int, int] = {}
        self.is_done = False

    async def declare(self) -> None:
        """Create the bucket."""
        await self._js.create_key_value(bucket="kv")

    async def run(self) -> None:
        """Set the key until it is enough."""
        while not self.is_done:
            with suppress(*NOT_YET):
                bucket = await self._js.key_value("kv")
                while not self.is_done:
                    revision = await bucket.put("x", b"%d" % (self.count + 1))
                    assert revision not in self._revisions, "a revision was given twice"
                    self.count += 1
                    self._revisions[revision] = self.count
                    await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(PAUSE_S)

    async def audit(self) -> None:
        """Compare the value with the last one that was confirmed; one more may be stored unconfirmed."""
        entry = await (await self._js.key_value("kv")).get("x")
        assert int(entry.value or b"0") in (self.count, self.count + 1)
        assert entry.revision is not None
        assert entry.revision >= max(self._revisions)


class Letters:
    """A publisher of NATS Streaming and a durable subscription, which never connect a second time."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._acked: list[bytes] = []
        self.is_done = False

    @property
    def count(self) -> int:
        """Return how many messages were both acknowledged and received."""
        return min(len(self._acked), len(self._heard.messages))

    async def declare(self) -> None:
        """Connect both clients, and subscribe."""
        self._sender = StanClient(await connected(self._url), "sender")
        self._reader = StanClient(await connected(self._url), "reader")
        for client in (self._sender, self._reader):
            assert (await client.connect()).error == ""
        self._heard = await self._subscribe()

    async def _subscribe(self) -> Heard:
        fields: dict[str, Any] = {
            "durableName": "mine",
            "startPosition": FIRST,
            "ackWaitInSecs": 2,
            "maxInFlight": 20,
        }
        return await self._reader.subscribe(CHANNEL, **fields)

    async def run(self) -> None:
        """Publish until it is enough, and return once everything begun is acknowledged."""
        while not self.is_done:
            await self._publish(b"%d" % len(self._acked))
            await asyncio.sleep(2 * PAUSE_S)

    async def _publish(self, data: bytes) -> None:
        sender = self._sender
        request = wire.PubMsg(
            clientID="sender", guid=unique_id(), subject=CHANNEL, data=data, connID=sender.conn_id
        ).SerializeToString()
        subject = f"{sender.subjects.pubPrefix}.{CHANNEL}".encode()
        while True:
            with suppress(NoRespondersError, TimeoutError, BusError):
                answer = wire.decode(wire.PubAck, (await sender.connection.request(subject, request, 0.5))[3])
                if not answer.error:
                    self._acked.append(data)
                    return
            await asyncio.sleep(0.05)

    async def audit(self) -> None:
        """Check that everything arrived in order, and that the durable continues after its last message."""
        heard = self._heard
        await until(lambda: set(self._acked) <= set(heard.datas), "all letters come", patience_s=DRAIN_S)
        firsts = list(dict.fromkeys(heard.seqs))
        assert firsts == sorted(firsts), "first deliveries are in order"
        named: dict[int, bytes] = {}
        for message in heard.messages:
            assert named.setdefault(message.sequence, message.data) == message.data, "a sequence was reused"
        unflagged = Counter(message.sequence for message in heard.messages if not message.redelivered)
        assert max(unflagged.values()) == 1, f"came again unflagged: {unflagged.most_common(3)}"
        await until(self._goes_on_after_the_last, "the durable goes on after what was acknowledged")

    async def _goes_on_after_the_last(self) -> bool:
        """Close and reopen the subscription; return whether only the message sent in between arrives."""
        assert (await self._reader.close_subscription(self._heard)).error == ""
        await self._publish(b"marker")
        self._heard = await self._subscribe()
        await until(lambda: b"marker" in self._heard.datas, "the marker comes")
        return self._heard.datas == [b"marker"]


class Clients:
    """All kinds of clients of one account."""

    def __init__(self, client: Client, url: str, replicas: int, *, has_copies: bool) -> None:
        """With `has_copies` a mirror and a source copy the orders, which needs a replicator."""
        self._js = client.jetstream(timeout=2)
        self._replicas = replicas
        self._has_copies = has_copies
        self._patient = client.jetstream(timeout=60)
        """Declares streams, which takes seconds on a busy machine."""
        self._orders, self._jobs = Publishers(client, "ORDERS"), Publishers(client, "JOBS")
        self._puller = Puller(self._js, "ORDERS", replicas)
        self._pushed = Pushed(client, self._js, "ORDERS")
        self._worker = Puller(self._js, "JOBS")
        self._keys, self._letters = Keys(self._js), Letters(url)
        self._sources: list[asyncio.Task[None]] = []
        self._sinks: list[asyncio.Task[None]] = []

    @property
    def counts(self) -> dict[str, int]:
        """Return how far each kind of client has got."""
        return {
            "orders": self._orders.count,
            "jobs": self._jobs.count,
            "pulled": self._puller.count,
            "pushed": self._pushed.count,
            "worked": self._worker.count,
            "keys": self._keys.count,
            "letters": self._letters.count,
        }

    async def start(self) -> None:
        """Declare everything, and work from now on."""
        add, replicas = self._patient.add_stream, self._replicas
        await add(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE, num_replicas=replicas)
        await add(name="JOBS", subjects=["jobs.>"], retention=RetentionPolicy.WORK_QUEUE)
        if self._has_copies:
            await add(StreamConfig(name="MIRROR", mirror=StreamSource(name="ORDERS")))
            await add(StreamConfig(name="COPY", sources=[StreamSource(name="ORDERS")]))
        for each in (self._puller, self._pushed, self._worker, self._keys, self._letters):
            await each.declare()
        self._sources = _tasks(x.run() for x in (self._orders, self._jobs, self._keys, self._letters))
        self._sinks = _tasks(x.run() for x in (self._puller, self._pushed, self._worker))

    async def stop(self) -> None:
        """End what still works, as after a failure."""
        for task in (*self._sources, *self._sinks):
            task.cancel()
        await asyncio.gather(*self._sources, *self._sinks, return_exceptions=True)

    async def progress(self) -> None:
        """Return once every kind of client was answered again."""
        before = self.counts

        def goes_on() -> bool:
            for task in (*self._sources, *self._sinks):
                if task.done():
                    task.result()
            return all(count > before[name] + 3 for name, count in self.counts.items())

        await until(goes_on, "every kind of client goes on", lambda: f"{before} {self.counts}", DRAIN_S)

    async def finish(self) -> None:
        """Begin nothing more, and compare everything with what was promised."""
        for source in (self._orders, self._jobs, self._keys, self._letters):
            source.is_done = True
        await until(
            lambda: all(task.done() for task in self._sources),
            "everything begun is acknowledged",
            lambda: f"{self.counts} {self._sources}",
            DRAIN_S,
        )
        await asyncio.gather(*self._sources)
        await self._puller.drained(self._orders)
        await self._pushed.drained(self._orders)
        await self._worker.drained(self._jobs)
        await until(self._has_no_jobs, "the queue is empty", patience_s=DRAIN_S)
        for sink in (self._puller, self._pushed, self._worker):
            sink.is_done = True
        await asyncio.gather(*self._sinks)
        self._orders.audit(await self._held("ORDERS"))
        await self._keys.audit()
        await self._letters.audit()
        if self._has_copies:
            await self._audit_copies()
        cluster = (await self._js.stream_info("ORDERS")).cluster
        assert cluster is not None
        assert len(cluster.replicas or []) == self._replicas - 1

    async def _has_no_jobs(self) -> bool:
        return (await self._js.stream_info("JOBS")).state.messages == 0

    async def _audit_copies(self) -> None:
        """A mirror has every message under its sequence, a source every message once and in order."""
        wanted = await self._held("ORDERS")
        for name in ("MIRROR", "COPY"):

            async def is_copied(name: str = name) -> bool:
                return (await self._js.stream_info(name)).state.messages >= len(wanted)

            await until(is_copied, f"{name} has caught up", patience_s=DRAIN_S)
        assert await self._held("MIRROR") == wanted
        assert list((await self._held("COPY")).values()) == list(wanted.values())

    async def _held(self, stream: str) -> dict[int, str]:
        """Return what a stream holds, by sequence."""
        count = (await self._js.stream_info(stream)).state.messages
        config = ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=600)
        reader = await self._js.pull_subscribe("", stream=stream, config=config)
        found: dict[int, str] = {}
        while len(found) < count:
            for message in await reader.fetch(500, timeout=60):
                found[message.metadata.sequence.stream] = message.data.decode()
        return found


def _tasks(works: Iterable[Coroutine[Any, Any, None]]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(work) for work in works]
