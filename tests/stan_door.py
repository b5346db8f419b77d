"""NATS Streaming in this process on a real nats-server, and a client of raw requests that tests drive."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doors import Door, Wanted, connected, opened_door
from headwater.bus.connection import Connection
from headwater.clock import SystemClock
from headwater.ingest.ingest import Ingest
from headwater.model.unique import unique_id
from headwater.settings import Settings
from headwater.stan.door import StanDoor, opened
from headwater.wire import stan_messages as wire
from headwater.wire.frames import Frame

CLUSTER = "test-cluster"
ANSWER_S = 60.0


class Heard:
    """Messages as a subscription gets them."""

    def __init__(self, client: StanClient, channel: str) -> None:
        self.items: list[Frame] = []
        self.messages: list[Any] = []
        self.inbox = f"_INBOX.{unique_id()}"
        self.ack_inbox = ""
        self.channel = channel
        self.acks = True
        """Whether each message is acknowledged as it comes."""
        self._client = client
        self._came = asyncio.Event()

    def flush(self) -> None:
        """Keep the messages that arrived, and acknowledge them."""
        for frame in self.items:
            message = wire.decode(wire.MsgProto, frame[3])
            self.messages.append(message)
            if self.acks:
                self.ack(message.sequence)
        self.items.clear()
        self._came.set()

    def ack(self, seq: int) -> None:
        """Acknowledge a message."""
        assert self.ack_inbox, "a message came before the answer to the subscribe request"
        body = wire.Ack(subject=self.channel, sequence=seq).SerializeToString()
        self._client.connection.publish(self.ack_inbox.encode(), body)

    @property
    def seqs(self) -> list[int]:
        """Return the received sequences, in order."""
        return [message.sequence for message in self.messages]

    @property
    def datas(self) -> list[bytes]:
        """Return the received data, in order."""
        return [message.data for message in self.messages]

    async def got(self, count: int) -> Heard:
        """Return once this many messages have arrived."""
        async with asyncio.timeout(ANSWER_S):
            while len(self.messages) < count:
                self._came.clear()
                await self._came.wait()
        return self


class Answering:
    """Answers heartbeats until a test turns that off."""

    def __init__(self, connection: Connection) -> None:
        self.items: list[Frame] = []
        self.is_alive = True
        self.asked = 0
        self._connection = connection

    def flush(self) -> None:
        """Answer each heartbeat."""
        for frame in self.items:
            self.asked += 1
            if self.is_alive:
                self._connection.publish(frame[1], b"")
        self.items.clear()


class StanClient:
    """A client that says exactly what a test has it say."""

    def __init__(self, connection: Connection, client_id: str = "me") -> None:
        self.connection = connection
        self.client_id = client_id
        self.conn_id = unique_id().encode()
        self.heartbeats = Answering(connection)
        self.heartbeat_inbox = f"_INBOX.{unique_id()}"
        self._heartbeat_sid = connection.subscribe(self.heartbeat_inbox.encode(), self.heartbeats)
        self.subjects: Any = None

    async def ask(self, subject: str, request: Any, answer: Any) -> Any:
        """Return the answer to a request."""
        body = request if isinstance(request, bytes) else request.SerializeToString()
        frame = await self.connection.request(subject.encode(), body, ANSWER_S)
        return wire.decode(answer, frame[3])

    async def connect(self, **fields: Any) -> Any:
        """Return the answer to a connect request."""
        asked = {
            "clientID": self.client_id,
            "heartbeatInbox": self.heartbeat_inbox,
            "connID": self.conn_id,
            "protocol": 1,
            "pingInterval": 5,
            "pingMaxOut": 3,
        }
        request = wire.ConnectRequest(**{**asked, **fields})
        answer = await self.ask(f"_STAN.discover.{CLUSTER}", request, wire.ConnectResponse)
        if not answer.error:
            self.subjects = answer
        return answer

    async def ping(self) -> Any:
        """Return the answer to a ping."""
        return await self.ask(self.subjects.pingRequests, wire.Ping(connID=self.conn_id), wire.PingResponse)

    async def publish(self, channel: str, data: bytes = b"", *, to: str = "", **fields: Any) -> Any:
        """Return the acknowledgement of a publish."""
        asked = {
            "clientID": self.client_id,
            "connID": self.conn_id,
            "guid": unique_id(),
            "subject": channel,
            "data": data,
        }
        request = wire.PubMsg(**{**asked, **fields})
        return await self.ask(to or f"{self.subjects.pubPrefix}.x", request, wire.PubAck)

    async def publish_all(self, channel: str, datas: list[bytes]) -> None:
        """Return once all these are acknowledged."""
        for answer in await asyncio.gather(*(self.publish(channel, data) for data in datas)):
            assert not answer.error, answer.error

    async def subscribe(self, channel: str, *, acks: bool = True, **fields: Any) -> Heard:
        """Return what a new subscription gets; fails if it is refused."""
        heard, answer = await self.try_subscribe(channel, acks=acks, **fields)
        assert not answer.error, answer.error
        return heard

    async def try_subscribe(self, channel: str, *, acks: bool = True, **fields: Any) -> tuple[Heard, Any]:
        """Return what a subscription would get, and the answer to the request."""
        heard = Heard(self, channel)
        heard.acks = acks
        self.connection.subscribe(heard.inbox.encode(), heard)
        asked = {
            "clientID": self.client_id,
            "subject": channel,
            "inbox": heard.inbox,
            "maxInFlight": 1024,
            "ackWaitInSecs": 30,
        }
        answered = asyncio.get_running_loop().create_future()
        reply = _Reply(heard, answered)
        reply_to = f"_INBOX.{unique_id()}".encode()
        self.connection.subscribe(reply_to, reply)
        body = wire.SubscriptionRequest(**{**asked, **fields}).SerializeToString()
        subject = self.subjects.subRequests if self.subjects else f"_STAN.sub.{CLUSTER}"
        self.connection.publish(subject.encode(), body, reply_to)
        return heard, await asyncio.wait_for(answered, ANSWER_S)

    async def unsubscribe(self, heard: Heard, **fields: Any) -> Any:
        """Return the answer to an unsubscribe request."""
        return await self._end(self.subjects.unsubRequests, heard, fields)

    async def close_subscription(self, heard: Heard, **fields: Any) -> Any:
        """Return the answer to leaving a subscription."""
        return await self._end(self.subjects.subCloseRequests, heard, fields)

    async def _end(self, subject: str, heard: Heard, fields: dict[str, Any]) -> Any:
        asked = {"clientID": self.client_id, "subject": heard.channel, "inbox": heard.ack_inbox}
        request = wire.UnsubscribeRequest(**{**asked, **fields})
        return await self.ask(subject, request, wire.SubscriptionResponse)

    async def close(self) -> Any:
        """Return the answer to the good-bye."""
        request = wire.CloseRequest(clientID=self.client_id)
        return await self.ask(self.subjects.closeRequests, request, wire.CloseResponse)

    async def die(self) -> None:
        """Answer no more heartbeats."""
        self.connection.unsubscribe(self._heartbeat_sid)
        await self.connection.flush()

    async def revive(self) -> None:
        """Answer heartbeats again."""
        self._heartbeat_sid = self.connection.subscribe(self.heartbeat_inbox.encode(), self.heartbeats)
        await self.connection.flush()


class _Reply:
    """Takes the answer to a subscribe request in the same read as the messages behind it."""

    def __init__(self, heard: Heard, answered: asyncio.Future[Any]) -> None:
        self.items: list[Frame] = []
        self._heard = heard
        self._answered = answered

    def flush(self) -> None:
        """Pass the ack subject on to the subscription."""
        for frame in self.items:
            answer = wire.decode(wire.SubscriptionResponse, frame[3])
            self._heard.ack_inbox = answer.ackInbox
            if not self._answered.done():
                self._answered.set_result(answer)
        self.items.clear()


@dataclass
class Streaming:
    """A running NATS Streaming server with its domain and connections."""

    door: Door
    stan: StanDoor

    async def client(self, client_id: str = "me", **fields: Any) -> StanClient:
        """Return a client on a connection of its own that is connected."""
        client = await self.stranger(client_id)
        answer = await client.connect(**fields)
        assert not answer.error, answer.error
        return client

    async def stranger(self, client_id: str = "me") -> StanClient:
        """Return a client on a connection of its own that has not introduced itself yet."""
        return StanClient(await connected(self.door.client_url), client_id)


@asynccontextmanager
async def streaming(store: Path, *, leaf: bool = True, **settings: Any) -> AsyncIterator[Streaming]:
    """Run an engine that serves NATS Streaming."""
    async with opened_door(store, Wanted(leaf=leaf)) as door, stan_on(door, **settings) as running:
        yield running


@asynccontextmanager
async def stan_on(door: Door, **settings: Any) -> AsyncIterator[Streaming]:
    """Serve NATS Streaming on an engine that runs."""
    ingest = Ingest(door.connection)
    async with opened(
        Settings(**{"stan": CLUSTER, **settings}),
        door.store / "stan.db",
        door.domain,
        door.connection,
        door.consumers.outlet if door.leaf else None,
        SystemClock(),
        ingest.keep_pace,
    ) as stan:
        yield Streaming(door, stan)
