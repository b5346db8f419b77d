"""Streams and consumers of one name at three sites of one account, joined by leaf nodes: whose acks count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import nats
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, RetentionPolicy
from nats.js.client import JetStreamContext

from engines import engine
from servers import nats_server
from waits import until

PATIENCE_S = 60.0
SITES = ("lake", "pond", "edge")
"""Two engines, the first of them at the hub, and a nats-server with a JetStream of its own."""


class Sites:
    """A client at the server of each site; every site has a work queue `JOBS` with a consumer `C`."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self._clients = clients

    def at(self, site: str, asked_from: str = "") -> JetStreamContext:
        """Return the JetStream of a site."""
        return self._clients[asked_from or site].jetstream(domain=site, timeout=PATIENCE_S)

    async def fill(self) -> None:
        """Give each site a message of its own, and a worker's consumer."""
        for site in SITES:
            jetstream = self.at(site)
            await jetstream.add_stream(
                name="JOBS", subjects=[f"jobs.{site}"], retention=RetentionPolicy.WORK_QUEUE
            )
            await jetstream.add_consumer("JOBS", ConsumerConfig(durable_name="C"))
            await jetstream.publish(f"jobs.{site}", site.encode())

    async def take(self, site: str) -> Msg:
        """Return the next job of a site."""
        worker = await self.at(site).pull_subscribe_bind("C", "JOBS")
        (message,) = await worker.fetch(1, timeout=PATIENCE_S)
        return message

    async def send(self, site: str, subject: str, data: bytes) -> None:
        """Publish at a site."""
        await self._clients[site].publish(subject, data)

    async def left(self, asked_from: str = "") -> dict[str, int]:
        """Return how many jobs each site still has; asked from where an ack was sent, after that ack."""
        infos = {site: await self.at(site, asked_from).stream_info("JOBS") for site in SITES}
        return {site: info.state.messages for site, info in infos.items()}


@asynccontextmanager
async def sites(directory: Path, form: str) -> AsyncIterator[Sites]:
    """Run a hub with an engine, and two leaf nodes of it: one with an engine, one with JetStream."""
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        hub = await enter(nats_server(leaf=True))
        remotes = f"reconnect: 1, remotes: [{{ url: {hub.leaf_url} }}]"
        pond = await enter(nats_server(leaf=remotes))
        edge = await enter(nats_server(f"leafnodes {{ {remotes} }}", jetstream="edge"))
        servers = {"lake": hub, "pond": pond, "edge": edge}
        for site in ("lake", "pond"):
            (directory / site).mkdir()
            server = servers[site]
            attached = ("--nats", server.client_url, "--leaf", server.leaf_url, "--domain", site)
            await enter(engine(directory / site, *attached, "--ack-format", form))
        clients = {}
        for site, server in servers.items():
            clients[site] = await nats.connect(server.client_url)
            stack.push_async_callback(clients[site].close)
        running = Sites(clients)

        async def joined() -> bool:
            try:
                for site in SITES:
                    for asked_from in SITES:
                        await running.at(site, asked_from).account_info()
            except nats.errors.Error:
                return False
            return True

        await until(joined, "every site hears every other")
        yield running


async def test_acks_that_name_their_domain_settle_nothing_of_another_site(tmp_path: Path) -> None:
    async with sites(tmp_path, "v2") as three:
        await three.fill()
        jobs = {site: await three.take(site) for site in SITES}
        assert [job.data.decode() for job in jobs.values()] == list(SITES)
        assert jobs["lake"].reply.startswith("$JS.ACK.lake.")
        assert jobs["edge"].reply.startswith("$JS.ACK.JOBS.C.1.1.1.")
        assert jobs["pond"].metadata.sequence.stream == 1
        # Who reads without acks, as clients do that read in order, is shown what every client knows.
        await three.at("lake").add_stream(name="SEEN", subjects=["seen"])
        await three.at("lake").publish("seen", b"1")
        reader = await three.at("lake").subscribe("seen", stream="SEEN", ordered_consumer=True)
        assert (await reader.next_msg(timeout=PATIENCE_S)).reply.startswith("$JS.ACK.SEEN.")
        left = dict.fromkeys(SITES, 1)
        for site in ("lake", "edge", "pond"):
            await jobs[site].ack_sync(timeout=PATIENCE_S)
            left[site] = 0
            assert await three.left(asked_from=site) == left


async def test_acks_in_the_older_form_reach_every_site_that_has_such_names(tmp_path: Path) -> None:
    async with sites(tmp_path, "v1") as three:
        await three.fill()
        job, *_ = [await three.take(site) for site in SITES]
        await job.ack_sync(timeout=PATIENCE_S)

        async def gone() -> bool:
            # Again and again: the hub learns only before long that other sites listen for it.
            await three.send("lake", job.reply, b"+ACK")
            return await three.left() == dict.fromkeys(SITES, 0)

        await until(gone, "each site believes that its own job is done")
