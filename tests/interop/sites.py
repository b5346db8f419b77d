"""A nats-server of domain `edge` and an engine of domain `lake`, connected in different ways."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
from nats.aio.client import Client

from cables import Cable, cable
from engines import RunningEngine, engine
from servers import RunningServer, nats_server
from waits import until

Json = dict[str, Any]
EDGE, LAKE = "$JS.edge.API", "$JS.lake.API"
PATIENCE_S = 60.0
ANSWER_S = 5.0
_NO_ADVERTISE = "no_advertise: true"
"""Without it a leaf would learn of the port behind the cable, and use that when the cable is cut."""


@dataclass
class Sites:
    """Both sites, and a client at each; the link between them is a cable."""

    server: RunningServer
    engine: RunningEngine
    link: Cable
    edge_url: str
    lake_url: str
    at_edge: Client
    at_lake: Client

    async def edge(self, request: str, body: Json | None = None) -> Json:
        """Return what the nats-server answers to an API request."""
        return await self._ask(self.at_edge, f"{EDGE}.{request}", body)

    async def lake(self, request: str, body: Json | None = None) -> Json:
        """Return what the engine answers to an API request."""
        return await self._ask(self.at_lake, f"{LAKE}.{request}", body)

    async def _ask(self, client: Client, subject: str, body: Json | None) -> Json:
        answer: Json = {}

        async def answered() -> bool:
            nonlocal answer
            try:
                reply = await client.request(subject, json.dumps(body or {}).encode(), timeout=ANSWER_S)
            except (nats.errors.Error, TimeoutError, OSError):
                return False
            answer = json.loads(reply.data)
            return True

        await until(answered, f"{subject} is answered")
        assert "error" not in answer, (subject, body, answer["error"])
        return answer

    async def publish(self, subject: str, count: int, *, start: int = 0, headers: Json | None = None) -> None:
        """Publish numbered messages into a stream of the lake, each acknowledged."""
        for number in range(start, start + count):
            await self.store(subject, b"%d" % number, headers)

    async def pour(self, subject: str, count: int, *, start: int = 0, size: int = 128) -> None:
        """Publish many numbered messages, and return once the lake has them all."""
        stream = (await self.lake("STREAM.NAMES", {"subject": subject}))["streams"][0]
        before = (await self.lake(f"STREAM.INFO.{stream}"))["state"]["last_seq"]
        for number in range(start, start + count):
            await self.at_lake.publish(subject, b"%d" % number + b"." * size)
        await self.at_lake.flush(30)

        async def stored() -> bool:
            return bool((await self.lake(f"STREAM.INFO.{stream}"))["state"]["last_seq"] >= before + count)

        await until(stored, f"{count} more messages are stored", self.tell)

    async def store(self, subject: str, data: bytes, headers: Json | None = None) -> int:
        """Publish one message into a stream of the lake; return its sequence there."""
        try:
            reply = await self.at_lake.request(subject, data, timeout=PATIENCE_S, headers=headers)
        except nats.errors.Error as error:
            raise AssertionError(f"{subject} is not acknowledged: {error!r}\n{self.tell()}") from error
        ack = json.loads(reply.data)
        assert "error" not in ack, ack
        return int(ack["seq"])

    async def holds(self, stream: str, last_seq: int, *, messages: int | None = None) -> None:
        """Return once the edge's stream has reached this sequence."""

        async def there() -> bool:
            state = (await self.edge(f"STREAM.INFO.{stream}"))["state"]
            return state["last_seq"] == last_seq and messages in (None, state["messages"])

        await until(there, f"{stream} holds {last_seq}", self.tell)

    async def messages(self, stream: str) -> list[Json]:
        """Return every message that the edge's stream holds."""
        state = (await self.edge(f"STREAM.INFO.{stream}"))["state"]
        found, seq = [], state["first_seq"]
        while seq <= state["last_seq"]:
            message = (await self.edge(f"STREAM.MSG.GET.{stream}", {"next_by_subj": ">", "seq": seq}))[
                "message"
            ]
            found.append(message)
            seq = message["seq"] + 1
        return found

    def tell(self) -> str:
        """Return the output of both sites, to analyse a failure."""
        return f"--- server\n{self.server.log[-3000:]}\n--- engine\n{self.engine.log[-3000:]}"


@asynccontextmanager
async def attached(directory: Path, binary: str = "") -> AsyncIterator[Sites]:
    """Run an engine that serves its domain on the very nats-server that replicates from it."""
    async with AsyncExitStack() as stack:
        server = await stack.enter_async_context(
            nats_server(jetstream="edge", leaf=_NO_ADVERTISE, binary=binary)
        )
        link = await stack.enter_async_context(cable(server.leaf_port))
        options = ("--nats", server.client_url, "--leaf", f"nats://127.0.0.1:{link.port}", "--domain", "lake")
        running = await stack.enter_async_context(engine(directory, *options))
        yield await _sites(stack, server, running, link, server.client_url, server.client_url)


@asynccontextmanager
async def behind_a_leaf(directory: Path, binary: str = "") -> AsyncIterator[Sites]:
    """Run a nats-server that is a leaf of a hub without JetStream, on which an engine serves its domain."""
    async with AsyncExitStack() as stack:
        # An older server takes one that advertises nothing for no leaf port at all.
        hub = await stack.enter_async_context(nats_server(leaf=True if binary else _NO_ADVERTISE))
        options = ("--nats", hub.client_url, "--leaf", hub.leaf_url, "--domain", "lake")
        running = await stack.enter_async_context(engine(directory, *options))
        link = await stack.enter_async_context(cable(hub.leaf_port))
        remote = f"leafnodes {{ reconnect: 1, remotes: [{{ url: nats://127.0.0.1:{link.port} }}] }}"
        server = await stack.enter_async_context(nats_server(remote, jetstream="edge", binary=binary))
        yield await _sites(stack, server, running, link, server.client_url, hub.client_url)


@asynccontextmanager
async def embedded(directory: Path) -> AsyncIterator[Sites]:
    """Run a nats-server that is a leaf of the one that an engine brings along."""
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(engine(directory, "--domain", "lake"))
        secret, _, address = running.leaf_url.rpartition("@")
        link = await stack.enter_async_context(cable(int(address.rpartition(":")[2])))
        remote = f'leafnodes {{ reconnect: 1, remotes: [{{ url: "{secret}@127.0.0.1:{link.port}" }}] }}'
        server = await stack.enter_async_context(nats_server(remote, jetstream="edge"))
        yield await _sites(stack, server, running, link, server.client_url, running.client_url)


async def _sites(
    stack: AsyncExitStack,
    server: RunningServer,
    running: RunningEngine,
    link: Cable,
    edge_url: str,
    lake_url: str,
) -> Sites:
    clients = []
    for url in (edge_url, lake_url):
        client = await nats.connect(
            url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=_ignore, connect_timeout=10
        )
        stack.push_async_callback(client.close)
        clients.append(client)
    return Sites(server, running, link, edge_url, lake_url, *clients)


async def _ignore(error: Exception) -> None:
    """Take no notice: servers are killed on purpose."""
