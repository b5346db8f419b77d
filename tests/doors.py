"""An engine's API in this process on a real nats-server, and a real JetStream to compare it with."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headwater.api.api import Api
from headwater.api.direct import DirectGets
from headwater.api.mirror_direct import MirrorDirectGets
from headwater.api.transfers import TransferTimeouts
from headwater.bus.connection import Connection
from headwater.bus.leaf import LeafConnection
from headwater.bus.options import ConnectOptions
from headwater.clock import Clock, SystemClock
from headwater.control.account import NO_LIMITS, AccountLimits
from headwater.control.catalog import Catalog
from headwater.control.consumers import Consumers
from headwater.control.domain import Domain
from headwater.delivery.outlet import Outlet
from headwater.disk import Disk, RealDisk
from headwater.ingest.ingest import Ingest
from headwater.journal.head_journal import JournalPeer
from headwater.replication.work import NatsOrigin
from headwater.settings import Settings
from headwater.stream.services import Services
from headwater.stream.view import RunCache
from headwater.upstreams.upstreams import Upstreams
from headwater.wire.frames import Frame
from headwater.wire.progress_json import EXTENSION, REQUESTED_BY
from servers import RunningServer, nats_server

ANSWER_S = 60.0
PROGRESS = f"NATS/1.0\r\n{REQUESTED_BY}: 1\r\n\r\n".encode()
_TIMES = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")

Json = Any
Body = bytes | str | dict[str, Any] | list[Any] | None


def encoded(body: Body) -> bytes:
    """Return a body as bytes; what is no text is written as JSON."""
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


class Replies:
    """Keeps the messages of one reply subject as they arrive."""

    def __init__(self) -> None:
        self.items: list[Frame] = []
        self.queue: asyncio.Queue[Frame] = asyncio.Queue()

    def flush(self) -> None:
        """Queue the messages that arrived."""
        for frame in self.items:
            self.queue.put_nowait(frame)
        self.items.clear()

    async def next(self) -> Frame:
        """Return the next message."""
        return await asyncio.wait_for(self.queue.get(), ANSWER_S)


class Asker:
    """A client of one API."""

    def __init__(self, connection: Connection, prefix: str = "$JS.API") -> None:
        self.connection = connection
        self.prefix = prefix
        self._count = 0

    async def ask(self, subject: str, body: Body = None, headers: bytes = b"") -> Json:
        """Return the answer of an endpoint, with the progress of upstreams unless other headers are given."""
        if not headers and subject.startswith(("STREAM.INFO.", "STREAM.LIST")):
            headers = PROGRESS
        return json.loads((await self.raw(f"{self.prefix}.{subject}", body, headers))[3])

    async def raw(self, subject: str, body: Body = None, headers: bytes = b"") -> Frame:
        """Return the first message that answers a request."""
        return await self.connection.request(subject.encode(), encoded(body), ANSWER_S, headers)

    async def publish(self, subject: str, data: bytes = b"", headers: bytes = b"") -> Json:
        """Return the acknowledgement of a stored message."""
        return json.loads((await self.raw(subject, data, headers))[3])

    def listen(self, subject: str) -> Replies:
        """Return what arrives on a subject from now on."""
        replies = Replies()
        self.connection.subscribe(subject.encode(), replies)
        return replies

    async def many(self, subject: str, body: Body = None, headers: bytes = b"") -> list[Frame]:
        """Return all messages that answer a request, up to the first with a status."""
        self._count += 1
        reply = f"_REPLIES.{id(self)}.{self._count}"
        replies = self.listen(reply)
        full = f"{self.prefix}.{subject}"
        self.connection.publish(full.encode(), encoded(body), reply.encode(), headers)
        frames = [await replies.next()]
        while not frames[-1][2].startswith(b"NATS/1.0 "):
            frames.append(await replies.next())
        return frames


@dataclass
class Door:
    """A running API with its domain, connections and server."""

    asker: Asker
    domain: Domain
    api: Api
    connection: Connection
    store: Path
    client_url: str
    consumers: Consumers
    upstreams: Upstreams
    server: RunningServer
    leaf: LeafConnection | None
    store_id: str = ""


@dataclass(frozen=True)
class Wanted:
    """How the engine under test should be."""

    limits: AccountLimits | None = None
    timeouts: TransferTimeouts | None = None
    domain_name: str = ""
    cluster_name: str = ""
    peers: tuple[JournalPeer, ...] = ()
    """The servers that keep copies of the journal."""
    prefixes: tuple[str, ...] = ("$JS.API",)
    clock: Callable[[], Clock] = SystemClock
    leaf: bool = False
    """Whether messages can be delivered."""
    disk: Disk | None = None
    """Holds the streams with file storage; the real disk if it is None."""
    problem: Callable[[], str] = str
    """Returns why there is no replicator."""


SECRET = b"what the engine and its replicators know"
AS_USUAL = Wanted()


async def connected(url: str) -> Connection:
    """Return a connection to the server at this address."""
    connection = Connection(ConnectOptions(servers=(url,), name="test"))
    await connection.connect()
    return connection


@asynccontextmanager
async def services(
    store: Path,
    send: Callable[[bytes], None] = lambda frames: None,
    *,
    domain: str = "",
    clock: Clock | None = None,
    disk: Disk | None = None,
) -> AsyncIterator[Services]:
    """Run what streams share; files are not synced, for speed."""
    memory = store / "memory"
    memory.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(4) as sync, ThreadPoolExecutor(4) as work:
        yield Services(
            settings=Settings(store=store, memory_dir=memory),
            clock=clock or SystemClock(),
            file_disk=disk or RealDisk(sync=False),
            memory_disk=RealDisk(sync=False),
            cache=RunCache(16 << 20),
            sync_executor=sync,
            work_executor=work,
            send=send,
            domain=domain,
        )


@asynccontextmanager
async def opened_domain(
    store: Path, shared: Services, limits: AccountLimits | None = None
) -> AsyncIterator[Domain]:
    """Run a domain on the store, all its streams open."""
    catalog = Catalog(store / "catalog.db")
    try:
        async with domain_of(catalog, store, shared, limits) as domain:
            yield domain
    finally:
        catalog.close()


@asynccontextmanager
async def domain_of(
    catalog: Catalog, store: Path, shared: Services, limits: AccountLimits | None = None
) -> AsyncIterator[Domain]:
    """Run a domain of what the catalog declares."""
    domain = Domain(
        account="$G", store=store, catalog=catalog, services=shared, limits=limits or AccountLimits()
    )
    await domain.open_all()
    try:
        yield domain
    finally:
        await domain.close()


@asynccontextmanager
async def opened_door(
    store: Path, wanted: Wanted = AS_USUAL, config: str | None = None
) -> AsyncIterator[Door]:
    """Run an engine's API on a nats-server of its own."""
    clock = wanted.clock()
    async with nats_server(f"server_name: probe\n{config or ''}", leaf=wanted.leaf) as server:
        connection = await connected(server.client_url)
        client = await connected(server.client_url)
        shared_by = services(
            store, connection.write, domain=wanted.domain_name, clock=clock, disk=wanted.disk
        )
        async with shared_by as shared:
            catalog = Catalog(store / "catalog.db")
            async with domain_of(catalog, store, shared, wanted.limits) as domain:
                leaf = _leaf(server, wanted)
                consumers = Consumers(
                    "$G",
                    catalog,
                    connection,
                    Outlet(leaf),
                    clock,
                    wanted.domain_name,
                    limits=wanted.limits or NO_LIMITS,
                )
                if leaf is not None:
                    leaf.interest.change_callbacks.append(consumers.on_interest)
                    await leaf.connect()
                domain.observe(consumers)
                origin = NatsOrigin(servers=(server.client_url,), api_prefix="", stream="")
                direct = DirectGets(connection, wanted.prefixes)
                mirror_direct = MirrorDirectGets(direct.door)
                upstreams = Upstreams(
                    domain,
                    connection,
                    clock,
                    catalog.store_id,
                    origin,
                    secret=SECRET,
                    on_looked=mirror_direct.on_looked,
                    problem=wanted.problem,
                )
                domain.observe(upstreams)
                upstreams.start()
                domain.observe(Ingest(connection))
                api = Api(
                    domain,
                    connection,
                    clock,
                    consumers,
                    upstreams,
                    direct=direct,
                    mirror_direct=mirror_direct,
                    prefixes=wanted.prefixes,
                    server_name="probe",
                    domain_name=wanted.domain_name,
                    cluster_name=wanted.cluster_name,
                    timeouts=wanted.timeouts,
                    peers=lambda: list(wanted.peers),
                )
                api.start()
                await connection.flush()
                yield Door(
                    Asker(client, wanted.prefixes[0]),
                    domain,
                    api,
                    connection,
                    store,
                    server.client_url,
                    consumers,
                    upstreams,
                    server,
                    leaf,
                    catalog.store_id,
                )
                await api.stop()
                await upstreams.close()
                await consumers.close()
                if leaf is not None:
                    await leaf.close()
        await client.close()
        await connection.close()


def _leaf(server: RunningServer, wanted: Wanted) -> LeafConnection | None:
    if not wanted.leaf:
        return None
    options = ConnectOptions(servers=(server.leaf_url,), name="test leaf")
    return LeafConnection(options, wanted.domain_name)


@asynccontextmanager
async def opened_jetstream() -> AsyncIterator[Asker]:
    """Run a real JetStream."""
    async with nats_server("server_name: probe", jetstream=True) as server:
        connection = await connected(server.client_url)
        yield Asker(connection)
        await connection.close()


def normal(answer: Json) -> Json:
    """Return an answer with all that differs between two servers by nature set to one value."""
    if isinstance(answer, dict):
        return {key: normal(value) for key, value in answer.items() if key != EXTENSION}
    if isinstance(answer, list):
        return [normal(value) for value in answer]
    if isinstance(answer, str):
        return _TIMES.sub("<time>", answer)
    return answer


def normal_frame(frame: Frame) -> Frame:
    """Return a raw answer without its subject and with its times set to one value."""
    header = _TIMES.sub("<time>", frame[2].decode())
    return b"", frame[1], header.encode(), frame[3]
