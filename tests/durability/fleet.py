"""Three sites that copy from each other, any part of which a test may kill.

A hub without JetStream carries two engines, `lake` and `far`; a nats-server `edge` is its leaf. The lake
copies from a stream of its own, from one of each other site, and from what it has copied itself.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg

from engines import RunningEngine, engine
from on_spark.replicators import RunningReplicator, replicator
from servers import RunningServer, nats_server
from waits import until

Json = dict[str, Any]
ANSWER_S = 10.0
CAUGHT_UP_S = 240.0
SUBJECTS = 5
# So much is folded that ranges are copied as files, out of the log, and both.
OPTIONS = ("--fold-messages", "200", "--fold-interval-s", "0.2")
_KEPT: Json = {"storage": "file", "allow_direct": True}
_BY_LIMITS: Mapping[str, str] = {}


class Copied(NamedTuple):
    """One upstream: where its origin is, what it is called, and which of its subjects are wanted."""

    site: str
    origin: str
    target: str
    wanted: str = ""
    mirrored: bool = False

    @property
    def config(self) -> Json:
        """Return it as a stream's config names it."""
        external = {} if self.site == "lake" else {"external": {"api": f"$JS.{self.site}.API"}}
        wanted = {"filter_subject": self.wanted} if self.wanted else {}
        return {"name": self.origin, **external, **wanted}


ORIGINS = {"LOCAL": "lake", "FAR": "far", "EDGE": "edge"}
UPSTREAMS = (
    Copied("lake", "LOCAL", "LOCAL_M", mirrored=True),
    Copied("far", "FAR", "FAR_M", mirrored=True),
    Copied("edge", "EDGE", "EDGE_M", mirrored=True),
    Copied("lake", "LOCAL", "ARCHIVE"),
    Copied("far", "FAR", "ARCHIVE"),
    Copied("edge", "EDGE", "ARCHIVE"),
    Copied("lake", "LOCAL", "SOME", wanted="LOCAL.1"),
    Copied("edge", "EDGE", "SOME", wanted="EDGE.2"),
    Copied("lake", "ARCHIVE", "REPORT", mirrored=True),
)


class Held(NamedTuple):
    """One message as a stream holds it."""

    seq: int
    time: str
    subject: str
    data: bytes
    headers: dict[str, str]


class Publisher:
    """Publishes numbered messages, again and again until they are acknowledged; each is stored once."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.sent = 0
        self.open: dict[int, bytes] = {}
        self._inbox = ""

    async def join(self, client: Client) -> None:
        """Take acknowledgements on this connection."""
        self._inbox = client.new_inbox()
        await client.subscribe(f"{self._inbox}.*", cb=self._acknowledged)

    async def burst(self, client: Client, count: int, size: int) -> None:
        """Publish what is not acknowledged yet, and so many more."""
        for number in range(self.sent, self.sent + count):
            self.open[number] = b"%d %d " % (number, size) + b"." * size
        self.sent += count
        for number, data in list(self.open.items()):
            subject, headers = f"{self.stream}.{number % SUBJECTS}", {"Nats-Msg-Id": f"{number}"}
            await client.publish(subject, data, f"{self._inbox}.{number}", headers)

    async def _acknowledged(self, message: Msg) -> None:
        if message.data and "seq" in json.loads(message.data):
            self.open.pop(int(message.subject.rpartition(".")[2]), None)


@dataclass
class Fleet:
    """All parts, and a client at each site."""

    hub: RunningServer
    edge: RunningServer
    lake: RunningEngine
    far: RunningEngine
    replicator: RunningReplicator
    clients: dict[str, Client]
    publishers: dict[str, Publisher] = field(default_factory=dict)

    async def ask(self, site: str, request: str, body: Json | None = None) -> Json:
        """Return the answer to an API request, asked until there is one."""
        answer: Json = {}

        async def answered() -> bool:
            nonlocal answer
            subject, data = f"$JS.{site}.API.{request}", json.dumps(body or {}).encode()
            try:
                answer = json.loads((await self.clients[site].request(subject, data, timeout=ANSWER_S)).data)
            except (nats.errors.Error, TimeoutError, OSError):
                return False
            return True

        await until(answered, f"{site} answers {request}", self.tell)
        assert "error" not in answer, (site, request, answer["error"])
        return answer

    async def declare(self, retentions: Mapping[str, str]) -> None:
        """Make the origins and everything that is copied from them."""
        for name, site in ORIGINS.items():
            config = {"name": name, "subjects": [f"{name}.*"], "retention": retentions.get(name, "limits")}
            await self.ask(site, f"STREAM.CREATE.{name}", {**config, **_KEPT})
            self.publishers[name] = Publisher(name)
            await self.publishers[name].join(self.clients[site])
        for target in dict.fromkeys(upstream.target for upstream in UPSTREAMS):
            ours = [upstream for upstream in UPSTREAMS if upstream.target == target]
            mirror = {"mirror": ours[0].config} if ours[0].mirrored else {}
            sources = {} if ours[0].mirrored else {"sources": [one.config for one in ours]}
            await self.ask("lake", f"STREAM.CREATE.{target}", {"name": target, **_KEPT, **mirror, **sources})

    async def held_for(self, site: str, origin: str) -> None:
        """Return once a remote origin keeps its messages for every upstream."""
        wanted = sum(upstream.origin == origin for upstream in UPSTREAMS)

        async def all_there() -> bool:
            return len((await self.ask(site, f"CONSUMER.NAMES.{origin}"))["consumers"] or ()) == wanted

        await until(all_there, f"{origin} has a consumer for each upstream", self.tell)

    async def publish(self, count: int, size: int) -> None:
        """Publish at every site."""
        for name, site in ORIGINS.items():
            await self.publishers[name].burst(self.clients[site], count, size)

    async def acknowledged(self) -> None:
        """Return once every published message is acknowledged."""

        async def none_open() -> bool:
            await self.publish(0, 0)
            await asyncio.sleep(0.3)
            return not any(publisher.open for publisher in self.publishers.values())

        await until(none_open, "everything is acknowledged", self.tell)

    async def caught_up(self) -> None:
        """Return once no upstream of the lake is behind its origin."""
        lags: Json = {}

        async def no_lag() -> bool:
            lags.clear()
            for target in dict.fromkeys(upstream.target for upstream in UPSTREAMS):
                info = await self.ask("lake", f"STREAM.INFO.{target}")
                for one in [info["mirror"]] if "mirror" in info else info["sources"]:
                    site = next(u.site for u in UPSTREAMS if (u.target, u.origin) == (target, one["name"]))
                    state = (await self.ask(site, f"STREAM.INFO.{one['name']}"))["state"]
                    status = (one["lag"], one.get("error"), state["last_seq"], info["state"]["last_seq"])
                    is_short = "mirror" in info and state["last_seq"] != info["state"]["last_seq"]
                    if one["lag"] or one.get("error") or is_short:
                        lags[f"{target} from {one['name']}"] = status
            return not lags

        await until(no_lag, "all is copied", lambda: f"{lags}\n{self.tell()}", CAUGHT_UP_S)

    async def held(self, site: str, stream: str) -> list[Held]:
        """Return every message of a stream, in its order."""
        state = (await self.ask(site, f"STREAM.INFO.{stream}"))["state"]
        client, found = self.clients[site], list[Held]()
        inbox = client.new_inbox()
        subscription = await client.subscribe(inbox)
        seq = state["first_seq"]
        while seq <= state["last_seq"]:
            asked = json.dumps({"seq": seq, "batch": 1000}).encode()
            await client.publish(f"$JS.{site}.API.DIRECT.GET.{stream}", asked, inbox)
            while not (status := _status(message := await subscription.next_msg(ANSWER_S))):
                found.append(_held(message))
            assert status in ("204", "404"), message.headers
            if not found or found[-1].seq < seq:
                break
            seq = found[-1].seq + 1
        await subscription.unsubscribe()
        return found

    def tell(self) -> str:
        """Return the last output of all parts, to analyse a failure."""
        logs = {"hub": self.hub.log, "lake": self.lake.log, "replicator": self.replicator.log}
        return "\n".join(f"--- {name}\n{log[-3000:]}" for name, log in logs.items())


def _status(message: Msg) -> str:
    return (message.headers or {}).get("Status", "")


def _held(message: Msg) -> Held:
    headers = dict(message.headers or {})
    for ours in ("Nats-Stream", "Nats-Num-Pending", "Nats-Last-Sequence"):
        headers.pop(ours, None)
    return Held(
        int(headers.pop("Nats-Sequence")),
        headers.pop("Nats-Time-Stamp"),
        headers.pop("Nats-Subject"),
        message.data,
        headers,
    )


@asynccontextmanager
async def fleet(directory: Path, retentions: Mapping[str, str] = _BY_LIMITS) -> AsyncIterator[Fleet]:
    """Run all sites, and one replicator that outlives the engine whose upstreams it copies."""
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(nats_server(leaf=True))
        remote = f'leafnodes {{ reconnect: 1, remotes: [{{ url: "{hub.leaf_url}" }}] }}'
        edge = await stack.enter_async_context(nats_server(remote, jetstream="edge"))
        engines = {}
        for domain in ("lake", "far"):
            options = ("--nats", hub.client_url, "--leaf", hub.leaf_url, "--domain", domain)
            engines[domain] = await stack.enter_async_context(
                engine(directory / domain, *options, "--replicator", "submitted", *OPTIONS)
            )
        lake = engines["lake"]
        copying = await stack.enter_async_context(
            replicator(
                hub.client_url,
                directory / "replicator.log",
                "--master",
                "local[2]",
                "--store",
                str(lake.store),
                store_id=store_id_of(lake.store),
            )
        )
        clients = {}
        for site, url in {"lake": hub.client_url, "far": hub.client_url, "edge": edge.client_url}.items():
            clients[site] = await nats.connect(
                url,
                max_reconnect_attempts=-1,
                reconnect_time_wait=0.1,
                error_cb=_ignore,
                connect_timeout=10,
                # What is published while a server is away waits here.
                pending_size=64 << 20,
            )
            stack.push_async_callback(clients[site].close)
        running = Fleet(hub, edge, lake, engines["far"], copying, clients)
        await running.declare(retentions)
        yield running


def store_id_of(store: Path) -> str:
    """Return the name by which a replicator asks for a store's work."""
    with sqlite3.connect(f"file:{store / 'catalog.db'}?mode=ro", uri=True) as catalog:
        (found,) = catalog.execute("SELECT value FROM store WHERE key = 'id'").fetchone()
    return str(found)


async def _ignore(error: Exception) -> None:
    """Take no notice: servers are killed on purpose."""
