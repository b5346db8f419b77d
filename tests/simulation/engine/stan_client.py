"""A NATS Streaming client: it publishes to a channel and reads it with a durable subscription."""

from __future__ import annotations

import asyncio
from typing import Any

from headwater.wire import stan_messages as wire
from headwater.wire.frames import Frame
from simulation.engine.clients import Actor
from simulation.engine.world import CLUSTER, BrokenPromiseError, World

CHANNEL = "chan"
DURABLE = "dur"


class StanClient(Actor):
    """One client with one durable subscription."""

    pause_s = 1.5

    def __init__(self, world: World) -> None:
        super().__init__(world, "stan")
        self.offered: set[bytes] = set()
        self.stored: set[bytes] = set()
        self.acked: set[bytes] = set()
        self.seen: dict[int, bytes] = {}
        self.is_draining = False
        self._count = 0
        self._connection: Any = None
        self._inbox = self.client.inbox()
        self._heartbeats = self.client.inbox()
        self._ack_inbox = ""
        self._conn_id = b"conn"
        self._failures = 0
        self._sids: list[bytes] = []

    async def act(self) -> None:
        if not self._sids:
            self._sids = [
                self.client.subscribe(self._heartbeats, self._heartbeat),
                self.client.subscribe(self._inbox, lambda frame: self.world.guarded(self._take, frame)),
            ]
        if self._connection is None and not await self._connect():
            return
        if not self._ack_inbox and not await self._subscribe():
            return
        if not self.is_draining:
            await asyncio.gather(*(self._publish() for _ in range(self.rng.choice((1, 3)))))

    def _heartbeat(self, frame: Frame) -> None:
        if frame[1]:
            self.client.publish(frame[1], b"")

    async def _ask(self, subject: str, request: Any, answer: Any) -> Any:
        frame = await self.client.request(subject, request.SerializeToString(), timeout_s=4.0)
        found = wire.decode(answer, frame[3]) if frame is not None else None
        self._failures = 0 if found is not None and not found.error else self._failures + 1
        if self._failures > 4:
            # As a client does whose connection is lost for too long.
            self._connection, self._ack_inbox, self._failures = None, "", 0
        return found

    async def _connect(self) -> bool:
        self._conn_id = f"conn {self._count} {self.rng.random()}".encode()
        await self._ask(f"_STAN.close.{CLUSTER}", wire.CloseRequest(clientID="me"), wire.CloseResponse)
        request = wire.ConnectRequest(
            clientID="me",
            heartbeatInbox=self._heartbeats,
            connID=self._conn_id,
            protocol=1,
            pingInterval=5,
            pingMaxOut=3,
        )
        answer = await self._ask(f"_STAN.discover.{CLUSTER}", request, wire.ConnectResponse)
        if answer is None or answer.error:
            return False
        self.world.counts["stan connected"] += 1
        self._connection = answer
        return True

    async def _subscribe(self) -> bool:
        request = wire.SubscriptionRequest(
            clientID="me",
            subject=CHANNEL,
            inbox=self._inbox,
            maxInFlight=20,
            ackWaitInSecs=5,
            durableName=DURABLE,
            startPosition=wire.FIRST,
        )
        answer = await self._ask(self._connection.subRequests, request, wire.SubscriptionResponse)
        if answer is None or answer.error:
            return False
        self.world.counts["stan subscribed"] += 1
        self._ack_inbox = answer.ackInbox
        return True

    async def _publish(self) -> None:
        self._count += 1
        data = f"stan {self._count} {'y' * self.rng.choice((0, 50, 2000))}".encode()
        self.offered.add(data)
        request = wire.PubMsg(
            clientID="me", connID=self._conn_id, guid=f"g{self._count}", subject=CHANNEL, data=data
        )
        answer = await self._ask(f"{self._connection.pubPrefix}.{CHANNEL}", request, wire.PubAck)
        if answer is not None and not answer.error:
            self.world.counts["stan stored"] += 1
            self.stored.add(data)
        else:
            self.world.counts["stan not stored"] += 1

    def _take(self, frame: Frame) -> None:
        message = wire.decode(wire.MsgProto, frame[3])
        if message.data not in self.offered:
            raise BrokenPromiseError(f"STAN: {message.data[:40]!r} was delivered, which nobody published")
        if self.seen.setdefault(message.sequence, message.data) != message.data:
            raise BrokenPromiseError(f"STAN: {message.sequence} was {self.seen[message.sequence][:40]!r}")
        self.world.counts["stan delivered"] += 1
        if self._ack_inbox and (self.is_draining or self.rng.random() < 0.85):
            body = wire.Ack(subject=CHANNEL, sequence=message.sequence).SerializeToString()
            self.client.publish(self._ack_inbox, body)
            self.acked.add(message.data)

    def missing(self) -> set[bytes]:
        """Return what was stored, and was not delivered to the durable until it was acknowledged."""
        return self.stored - self.acked
