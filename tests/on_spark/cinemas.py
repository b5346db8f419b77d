"""A headquarters and two cinemas with Spark, their links on cables, and what is sold and shown there."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import nats
import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig

from cables import Cable, CableRoom
from headwater.site.engines import SERVING
from headwater.site.run_record import read_record
from jetstreams import Shell
from topologies import ACCOUNTS, CINEMAS, RunningSites, cinemas, running_sites

Json = dict[str, Any]
PATIENCE_S = 120.0
ANSWER_S = 10.0
SPARK = ("--no-streams", "--spark-master", "local[2]", "--spark-driver-memory", "512m")
SPOKES = ("spoke-1", "spoke-2")
DELAY_S, LOSS, RATE = 0.3, 0.01, 1_000_000
RETRANSMISSION_S = 0.9
# Where each stream is, and from which site it is published to, with which subject.
PUBLISHED = {
    "tickets-1": ("spoke-1", "tickets-1.sold"),
    "tickets-2": ("spoke-2", "tickets-2.sold"),
    "cinema-a": ("hub", "cinema-a.new.films"),
}


class Cinemas:
    """All sites, the cables between them, and a shell with their contexts."""

    def __init__(
        self,
        sites: RunningSites,
        room: CableRoom,
        links: dict[str, Cable],
        other_address: Cable,
        shell: Shell,
    ) -> None:
        self.sites = sites
        self.room = room
        self.links = links
        self.other_address = other_address
        """Another address of the headquarters, which nobody answers at first."""
        self.shell = shell
        self.published: Counter[str] = Counter()
        self.lost = 0
        """How many segments were lost on slow links."""

    async def nats(self, *arguments: str) -> str:
        """Run a command of the guide and return what it wrote."""
        return await asyncio.to_thread(self.shell.ok, *arguments, NATS_URL="")

    async def report(self, domain: str) -> str:
        """Return the guide's report on a domain."""
        return await self.nats("--context=hub", "str", "report", f"--js-domain={domain}")

    async def status(self) -> str:
        """Return what `headwater site status` shows."""
        command = ("site", "status", str(self.sites.file), "--dir", str(self.sites.layout.directory))
        # Its exit code says whether anything is down.
        return (await asyncio.to_thread(self.shell, *command, NATS_URL="")).out

    def tell(self) -> str:
        """Return the output of all parts, to analyse a failure."""
        logs = [f"{name}/engine.log" for name in ("hub", *SPOKES)] + ["replicator.log", "hub/hub.log"]
        return "\n".join(f"--- {log}\n{self.sites.log_of(log)[-3000:]}" for log in logs)

    @asynccontextmanager
    async def client(self, site: str) -> AsyncIterator[Client]:
        """Yield a client of a site's own server, in the business account."""
        urls = list(self.sites.topology.site(site).client_urls())
        client = await nats.connect(urls, user="acc", password="acc", error_cb=_ignore, connect_timeout=30)
        try:
            yield client
        finally:
            await client.close()

    async def publish(self, stream: str, count: int, size: int = 0) -> None:
        """Publish so many more numbered messages into a stream, at its own site, each acknowledged."""
        site, subject = PUBLISHED[stream]
        async with self.client(site) as client:
            for _ in range(count):
                await self.publish_one(client, stream, subject, "x" * size)

    async def publish_one(self, client: Client, stream: str, subject: str, ballast: str = "") -> None:
        """Publish the next numbered message, again under the same id until it is acknowledged."""
        number = self.published[stream] + 1
        headers = {"Nats-Msg-Id": f"{stream} {number}"} | ({"Ballast": ballast} if ballast else {})
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while True:
            try:
                ack = await client.request(subject, b"%d" % number, timeout=ANSWER_S, headers=headers)
                break
            except nats.errors.Error:
                assert asyncio.get_running_loop().time() < deadline, f"{stream} takes nothing\n{self.tell()}"
                await asyncio.sleep(0.05)
        assert "error" not in json.loads(ack.data), ack.data
        self.published[stream] = number

    async def info(self, site: str, stream: str) -> Json:
        """Return what a site says of its stream."""
        async with self.client(site) as client:
            answer = await client.request(f"$JS.API.STREAM.INFO.{stream}", b"", timeout=ANSWER_S)
            found: Json = json.loads(answer.data)
            assert "error" not in found, found
            return found

    async def holds(self, site: str, stream: str, messages: int) -> None:
        """Return once a stream holds so many messages."""

        async def there() -> bool:
            return bool((await self.info(site, stream))["state"]["messages"] == messages)

        await self.until(there, f"{stream} at {site} holds {messages} messages")

    async def until(self, holds: Callable[[], Awaitable[bool]], what: str) -> None:
        """Return once something holds; fail when it has not for very long."""
        deadline = asyncio.get_running_loop().time() + PATIENCE_S
        while not await holds():
            assert asyncio.get_running_loop().time() < deadline, f"not so: {what}\n{self.tell()}"
            await asyncio.sleep(0.1)

    async def messages(self, site: str, stream: str) -> list[Json]:
        """Return every message of a stream in order: sequence, subject, data, origin."""
        found: list[Json] = []
        async with self.client(site) as client:
            jetstream = client.jetstream(timeout=ANSWER_S, domain=site)
            last = (await jetstream.stream_info(stream)).state.last_seq
            # Not an ordered consumer: it has one replica, which a stream with interest retention may refuse.
            config = ConsumerConfig(ack_policy=AckPolicy.NONE, inactive_threshold=600)
            reader = await jetstream.pull_subscribe(">", stream=stream, config=config)
            fetched: list[Msg] = []
            while not found or found[-1]["seq"] < last:
                fetched = fetched or await reader.fetch(100, timeout=PATIENCE_S)
                message = fetched.pop(0)
                said = (message.headers or {}).get("Nats-Stream-Source", "")
                found.append(
                    {
                        "seq": message.metadata.sequence.stream,
                        "subject": message.subject,
                        "data": message.data,
                        "origin": said.split(":")[0].split(" ")[0],
                    }
                )
        return found

    @contextmanager
    def slow_links(self, chance: random.Random) -> Iterator[None]:
        """Make every link as slow as one by satellite: its cable does it, or the kernel where asked to."""
        if os.environ.get("TEST_NETEM"):
            for command in netem(self.hub_leaf_port):
                subprocess.run(command.split(), check=True)
            self.lost = 1  # as many as the kernel likes
            yield
            return
        for link in self.links.values():
            link.stalls = lambda: self._lose(chance)
            link.delay_s, link.bytes_per_s = DELAY_S, RATE // 8
        yield
        for link in self.links.values():
            link.stalls = lambda: 0.0
            link.delay_s, link.bytes_per_s = 0.0, 0

    def _lose(self, chance: random.Random) -> float:
        """Return the delay of a segment; a lost one is sent again, and all later ones wait for it."""
        if chance.random() >= LOSS:
            return 0.0
        self.lost += 1
        return RETRANSMISSION_S

    @property
    def hub_leaf_port(self) -> int:
        """Return the port behind every cable."""
        return self.sites.topology.site("hub").leaf_port

    def kill(self, name: str) -> None:
        """Kill one of the processes, which is started again."""
        record = read_record(self.sites.layout.directory)
        assert record is not None
        (process,) = [child for child in record.children if child.name == name]
        os.kill(process.pid, signal.SIGKILL)

    def lose_engine(self, site: str) -> None:
        """Kill the engine that serves a site, with its directory."""
        record = read_record(self.sites.layout.directory)
        assert record is not None
        (serving,) = [each for each in record.engines if each.engine == site and each.state == SERVING]
        assert serving.process is not None
        # Stopped first: it is started again at once, and must not find its directory.
        os.kill(serving.process.pid, signal.SIGSTOP)
        shutil.rmtree(self.sites.layout.store(site, serving.number))
        os.kill(serving.process.pid, signal.SIGKILL)

    async def audit(self) -> None:
        """Check every target: nothing lost, nothing twice, each origin's messages in order."""
        await self.holds("hub", "sales", self.published["tickets-1"] + self.published["tickets-2"])
        await self.holds("spoke-1", "cinema-a-mirror", self.published["cinema-a"])
        sales = await self.messages("hub", "sales")
        for origin in ("tickets-1", "tickets-2"):
            came = [message["data"] for message in sales if message["origin"] == origin]
            assert came == numbered(self.published[origin]), f"{origin} in sales\n{self.tell()}"
            subjects = {message["subject"] for message in sales if message["origin"] == origin}
            assert subjects == {PUBLISHED[origin][1]}
        mirror = await self.messages("spoke-1", "cinema-a-mirror")
        assert [message["data"] for message in mirror] == numbered(self.published["cinema-a"])
        assert [message["seq"] for message in mirror] == list(range(1, self.published["cinema-a"] + 1))

    async def releases_all(self) -> None:
        """Return once the origins that keep a message only until it is copied have none left."""
        for stream, (site, _) in PUBLISHED.items():
            if (await self.info(site, stream))["config"]["retention"] == "interest":
                await self.holds(site, stream, 0)


def numbered(count: int) -> list[bytes]:
    """Return the data of the first so many messages of a stream."""
    return [b"%d" % number for number in range(1, count + 1)]


async def _ignore(error: Exception) -> None:
    """Ignore it: the status is shown on request."""


@contextmanager
def opened_cinemas(
    directory: Path, nodes: int = 1, files: Callable[[str], list[Path]] | None = None
) -> Iterator[Cinemas]:
    """Run the sites of the example with Spark, each link through its own cable; no streams exist yet.

    The first cinema's link logs in like its users; the second one's has its own user. With three nodes,
    the headquarters has two engines.
    """
    files = files or guide_files
    streams = {name: [str(file) for file in files(name)] for name in ("hub", *SPOKES)}
    value = cinemas(nodes, streams)
    value["sites"]["hub"]["engines"] = 2 if nodes > 1 else 1
    own = {"user": "cinema-2", "password": "two", "leaf": "spoke-2"}
    value["accounts"] = {**ACCOUNTS, "ACC": {"users": [*ACCOUNTS["ACC"]["users"], own]}}
    value["sites"]["spoke-2"]["remotes"][0]["user"] = own["user"]
    with CableRoom() as room:
        links = {name: room.lay(value["sites"]["hub"]["leaf_port"]) for name in SPOKES}
        other_address = room.lay(value["sites"]["hub"]["leaf_port"])
        room.cut(other_address)
        detours = {
            (name, "hub"): f"nats://127.0.0.1:{link.port},nats://127.0.0.1:{other_address.port}"
            for name, link in links.items()
        }
        with running_sites(directory, value, *SPARK, detours=detours) as sites:
            shell = Shell("", directory / "home")
            for site in sites.topology.sites:
                url = ",".join(site.client_urls())
                shell.ok("context", "add", site.name, "--server", url, "--user", "acc", "--password", "acc")
            yield Cinemas(sites, room, links, other_address, shell)


def netem(port: int) -> list[str]:
    """Return the commands with which the kernel delays the traffic of a port of this machine."""
    slow = f"netem delay {DELAY_S * 1000:g}ms loss {LOSS:.0%} rate {RATE}bit limit 10000"
    match = "tc filter add dev lo protocol ip parent 1: prio 1 u32 match ip"
    return [
        "tc qdisc add dev lo root handle 1: prio",
        f"tc qdisc add dev lo parent 1:3 handle 30: {slow}",
        f"{match} dport {port} 0xffff flowid 1:3",
        f"{match} sport {port} 0xffff flowid 1:3",
    ]


def guide_files(domain: str) -> list[Path]:
    """Return the example's streams of a domain."""
    return sorted((CINEMAS / "src").glob(f"{domain}.*.json"))


def literal_files(directory: Path, domain: str) -> list[Path]:
    """Return the streams of a domain as the original guide has them, with three replicas each.

    Its mirror is none, so that the corrected one is used, with three replicas as well.
    """
    found = sorted((CINEMAS.parent / "three-copies" / "src").glob(f"{domain}.*.json"))
    mirror = f"{domain}.cinema-a-mirror.json"
    for place, file in enumerate(found):
        if file.name == mirror:
            config = json.loads((CINEMAS / "src" / mirror).read_text())
            found[place] = directory / mirror
            found[place].write_text(json.dumps({**config, "num_replicas": 3}))
    return found
