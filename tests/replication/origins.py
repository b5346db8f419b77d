"""Streams of a real nats-server and of a Headwater engine, to be read as origins."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from engines import RunningEngine, engine
from headwater.bus.connection import Connection
from headwater.bus.options import ConnectOptions
from headwater.model.message import Message
from headwater.model.times import parse_time
from headwater.replication.work import NatsOrigin
from headwater.replication.worker.origin import OriginReader
from headwater.wire.frames import Frame
from replication.works import messages_in
from servers import nats_server

KINDS = ("nats-server", "headwater")
PREFIX = "PROXY.API"

Answers = list[tuple[bytes, bytes]]
"""Header block and data of each message that answers a request."""


@dataclass
class Site:
    """A JetStream with a stream ORDERS on `orders.>`, once it is made."""

    url: str
    client: Client

    async def ask(self, endpoint: str, body: bytes = b"") -> Any:
        """Return the answer of an endpoint."""
        answer = json.loads((await self.client.request(f"$JS.API.{endpoint}", body, timeout=60)).data)
        assert "error" not in answer, answer
        return answer

    async def make(self, **config: Any) -> None:
        """Make the stream."""
        named = {"name": "ORDERS", "subjects": ["orders.>"], "storage": "file", "retention": "limits"}
        await self.ask("STREAM.CREATE.ORDERS", json.dumps({**named, **config}).encode())

    async def publish(self, subject: str, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """Store one message."""
        await self.client.jetstream().publish(subject, data, headers=headers)

    async def remember(self) -> list[Message]:
        """Return what is stored, read one by one."""
        state = (await self.ask("STREAM.INFO.ORDERS"))["state"]
        found = []
        for seq in range(state["first_seq"], state["last_seq"] + 1):
            try:
                said = (await self.ask("STREAM.MSG.GET.ORDERS", b'{"seq":%d}' % seq))["message"]
            except AssertionError:
                continue
            ts = parse_time(said["time"])
            assert ts is not None
            block = base64.b64decode(said.get("hdrs", ""))
            data = base64.b64decode(said.get("data", ""))
            found.append(Message(seq, ts, said["subject"].encode(), block, data))
        return found

    def origin(self, **fields: Any) -> NatsOrigin:
        """Return the stream as a piece of work names it."""
        return NatsOrigin(**{"servers": (self.url,), "api_prefix": "$JS.API", "stream": "ORDERS", **fields})

    async def read(self, start_seq: int, stop_seq: int, *filters: str, **fields: Any) -> Reading:
        """Read a range as a transfer task does."""
        reader = OriginReader(self.origin(**fields), start_seq, stop_seq, filters)
        parts = await asyncio.to_thread(list, reader)
        return Reading([message for part in parts for message in messages_in(part.columns())], reader.through)


@dataclass(frozen=True)
class Reading:
    """What a reader has read, and the position that it reports."""

    messages: list[Message]
    through: int

    @property
    def seqs(self) -> list[int]:
        """Return the sequences that were brought."""
        return [message.seq for message in self.messages]


@asynccontextmanager
async def site_of(kind: str, directory: Path, config: str = "") -> AsyncIterator[Site]:
    """Run a JetStream of this kind."""
    if kind == "headwater":
        async with engine(directory / "engine") as running:
            async with _connected(running.client_url) as site:
                yield site
    else:
        async with nats_server(config, jetstream=True) as server:
            async with _connected(server.client_url) as site:
                yield site


@contextmanager
def lasting_origin(kind: str, directory: Path) -> Iterator[Origin]:
    """Run an engine that several tests share; a nats-server starts so fast that each test has its own."""
    if kind != "headwater":
        yield Origin(kind)
        return
    directory.mkdir(parents=True, exist_ok=True)
    running = RunningEngine(directory)
    asyncio.run(running.start())
    try:
        yield Origin(kind, running.client_url)
    finally:
        asyncio.run(running.stop())


@dataclass(frozen=True)
class Origin:
    """A kind of JetStream, and the address of the one that tests share if they do."""

    kind: str
    url: str = ""

    @asynccontextmanager
    async def site(self, directory: Path) -> AsyncIterator[Site]:
        """Yield a JetStream without streams, and leave it so."""
        if not self.url:
            async with site_of(self.kind, directory) as site:
                yield site
            return
        async with _connected(self.url) as site:
            try:
                yield site
            finally:
                for name in (await site.ask("STREAM.NAMES"))["streams"] or ():
                    await site.ask(f"STREAM.DELETE.{name}")


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Site]:
    client = await nats.connect(url)
    try:
        yield Site(url, client)
    finally:
        await client.close()


class Proxy:
    """A proxy between a reader and a real JetStream that changes the answers that a test chooses."""

    def __init__(self, connection: Connection) -> None:
        self.items: list[Frame] = []
        self.answers: dict[str, Any] = {}
        """By endpoint without its stream, the JSON that is answered instead."""
        self.direct_get: Callable[[dict[str, Any]], Answers] | None = None
        self._connection = connection
        connection.subscribe(f"{PREFIX}.>".encode(), self)

    def flush(self) -> None:
        """Answer the requests that arrived, or forward them."""
        frames, self.items[:] = list(self.items), []
        for subject, reply, _, body in frames:
            endpoint = subject.decode().removeprefix(PREFIX + ".")
            name = endpoint.rsplit(".", 1)[0]
            if name == "DIRECT.GET" and self.direct_get is not None:
                for headers, data in self.direct_get(json.loads(body)):
                    self._connection.publish(reply, data, b"", headers)
            elif name in self.answers:
                self._connection.publish(reply, json.dumps(self.answers[name]).encode())
            else:
                self._connection.publish(f"$JS.API.{endpoint}".encode(), body, reply)


@asynccontextmanager
async def proxied(**config: Any) -> AsyncIterator[tuple[Site, Proxy]]:
    """Run a nats-server with ten messages in ORDERS, and a proxy before its API."""
    with tempfile.TemporaryDirectory() as directory:
        async with site_of("nats-server", Path(directory)) as site:
            await site.make(**{"allow_direct": True, **config})
            for seq in range(1, 11):
                await site.publish("orders.a", b"%d" % seq)
            connection = Connection(ConnectOptions(servers=(site.url,), name="proxy"))
            await connection.connect()
            try:
                proxy = Proxy(connection)
                await connection.flush()
                yield site, proxy
            finally:
                await connection.close()
