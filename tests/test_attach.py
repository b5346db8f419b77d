"""An engine attached to a running nats-server with JetStream, as its users see it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ConsumerConfig, KeyValueConfig, StreamConfig

from engines import RunningEngine, engine
from servers import RunningServer, nats_server

COUNT = 20


class Beside:
    """A nats-server with JetStream, an engine that serves the domain `lake` there, and one client of both."""

    def __init__(self, server: RunningServer, running: RunningEngine, client: Client) -> None:
        self.server = server
        self.engine = running
        self.client = client
        self.lake: JetStreamContext = client.jetstream(domain="lake", timeout=60)
        self.own: JetStreamContext = client.jetstream(timeout=60)


@pytest.fixture
async def beside(tmp_path: Path) -> AsyncIterator[Beside]:
    async with nats_server(jetstream="hub", leaf=True) as server:
        options = ("--nats", server.client_url, "--leaf", server.leaf_url, "--domain", "lake")
        async with engine(tmp_path, *options) as running:
            client = await nats.connect(
                server.client_url, max_reconnect_attempts=-1, reconnect_time_wait=0.1, error_cb=_ignore
            )
            try:
                yield Beside(server, running, client)
            finally:
                await client.close()


async def _ignore(error: Exception) -> None:
    """Take no notice: servers are killed on purpose."""


async def fill(lake: JetStreamContext, count: int = COUNT, start: int = 0) -> None:
    """Publish numbered messages."""
    for number in range(start, start + count):
        await lake.publish("orders.new", b"%d" % number, stream="ORDERS")


async def test_both_jetstreams_keep_their_own_streams(beside: Beside) -> None:
    await beside.lake.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await beside.own.add_stream(StreamConfig(name="OTHERS", subjects=["others.>"]))
    await fill(beside.lake)
    await beside.own.publish("others.new", b"")
    assert [info.config.name for info in await beside.lake.streams_info()] == ["ORDERS"]
    assert [info.config.name for info in await beside.own.streams_info()] == ["OTHERS"]
    assert (await beside.lake.stream_info("ORDERS")).state.messages == COUNT


async def test_pull_push_and_ordered_consumers_of_a_domain(beside: Beside) -> None:
    await beside.lake.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await fill(beside.lake)
    pulled = await beside.lake.pull_subscribe("orders.>", "puller", stream="ORDERS")
    taken = await pulled.fetch(COUNT, timeout=60)
    assert [message.data for message in taken] == [b"%d" % number for number in range(COUNT)]
    for message in taken:
        await message.ack_sync(timeout=60)
    assert (await pulled.consumer_info()).num_ack_pending == 0

    pushed = await beside.lake.subscribe("orders.>", durable="pusher", stream="ORDERS", manual_ack=True)
    first = await pushed.next_msg(timeout=60)
    await first.ack_sync(timeout=60)
    assert (first.subject, first.metadata.sequence.stream, first.metadata.num_pending) == (
        "orders.new",
        1,
        COUNT - 1,
    )
    ordered = await beside.lake.subscribe("orders.>", ordered_consumer=True, stream="ORDERS")
    seen = [(await ordered.next_msg(timeout=60)).metadata.sequence.stream for _ in range(COUNT)]
    assert seen == list(range(1, COUNT + 1))


async def test_key_value_buckets_of_a_domain(beside: Beside) -> None:
    bucket = await beside.lake.create_key_value(KeyValueConfig(bucket="settings", history=5))
    await bucket.put("colour", b"blue")
    revision = await bucket.put("colour", b"green")
    entry = await bucket.get("colour")
    assert (entry.value, entry.revision) == (b"green", revision)
    watch = await bucket.watchall()
    update = await watch.updates(timeout=60)  # type: ignore[no-untyped-call]
    assert update is not None
    assert update.value == b"green"
    await bucket.delete("colour")
    # Other clients name the domain before the subject, for leaf nodes let nothing of `$KV.>` pass.
    reply = await beside.client.request("$JS.lake.API.$KV.settings.size", b"12", timeout=60)
    assert json.loads(reply.data)["stream"] == "KV_settings"
    assert (await bucket.get("size")).value == b"12"


async def test_everything_continues_when_the_server_was_killed(beside: Beside) -> None:
    await beside.lake.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    pulled = await beside.lake.pull_subscribe("orders.>", "puller", stream="ORDERS")
    pushed = await beside.lake.subscribe(
        "orders.>", stream="ORDERS", durable="pusher", config=ConsumerConfig(idle_heartbeat=1)
    )
    await fill(beside.lake, 5)
    assert len(await pulled.fetch(5, timeout=60)) == 5
    assert [(await pushed.next_msg(timeout=60)).data for _ in range(5)] == [b"%d" % n for n in range(5)]
    await beside.server.kill()
    await beside.server.start()
    await answered(beside.lake)
    await fill(beside.lake, 5, start=5)
    found = await pulled.fetch(5, timeout=60)
    assert [message.data for message in found] == [b"%d" % number for number in range(5, 10)]
    assert [(await pushed.next_msg(timeout=60)).data for _ in range(5)] == [b"%d" % n for n in range(5, 10)]


async def answered(lake: JetStreamContext) -> None:
    """Return once the domain is served again."""
    for _ in range(1200):
        try:
            await lake.account_info()
        except (nats.errors.Error, nats.js.errors.Error):
            await asyncio.sleep(0.05)
        else:
            return
    raise AssertionError("nobody serves the domain any more")


async def test_everything_continues_when_the_engine_was_killed(beside: Beside) -> None:
    await beside.lake.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    pulled = await beside.lake.pull_subscribe("orders.>", "puller", stream="ORDERS")
    pushed = await beside.lake.subscribe("orders.>", stream="ORDERS", durable="pusher")
    await fill(beside.lake, 5)
    for message in await pulled.fetch(5, timeout=60):
        await message.ack_sync(timeout=60)
    await beside.engine.kill()
    await beside.engine.start()
    await fill(beside.lake, 5, start=5)
    found = await pulled.fetch(5, timeout=60)
    assert [message.data for message in found] == [b"%d" % number for number in range(5, 10)]
    seen: list[bytes] = []
    while b"9" not in seen:
        seen.append((await pushed.next_msg(timeout=60)).data)
    assert set(seen) == {b"%d" % number for number in range(10)}


async def test_without_a_leaf_port_the_engine_says_so_and_serves_all_but_deliveries(tmp_path: Path) -> None:
    async with nats_server(jetstream="hub") as server:
        async with engine(tmp_path, "--nats", server.client_url, "--domain", "lake") as running:
            client = await nats.connect(server.client_url)
            lake = client.jetstream(domain="lake", timeout=60)
            await lake.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"], allow_direct=True))
            await fill(lake, 1)
            assert (await lake.get_msg("ORDERS", 1)).data == b"0"
            await client.close()
        assert running.log.count("No leaf port was given, so messages cannot be delivered") == 1


@pytest.mark.parametrize(
    ("config", "options", "sentence"),
    [
        ({"leaf": False}, ["--leaf", "nats://127.0.0.1:1"], "Messages cannot be delivered to consumers"),
        ({"leaf": True, "jetstream": "lake"}, [], "The domain lake is the one of the server's own JetStream"),
        (
            {
                "config": 'authorization: { users: [{user: u, password: p, permissions: {subscribe: "x"}}] }',
                "leaf": True,
            },
            ["--user", "u", "--password", "p"],
            "The server's permissions do not allow us to subscribe to $JS.lake.API.>",
        ),
    ],
    ids=["leaf port closed", "domain of the server", "no permission"],
)
async def test_what_is_missing_is_reported_in_one_sentence(
    tmp_path: Path, config: dict[str, object], options: list[str], sentence: str
) -> None:
    async with nats_server(**config) as server:  # type: ignore[arg-type]
        await refused(tmp_path, [*options, "--nats", server.client_url, "--domain", "lake"], sentence)


async def test_a_domain_that_another_engine_serves_is_refused(beside: Beside, tmp_path: Path) -> None:
    options = ["--nats", beside.server.client_url, "--leaf", beside.server.leaf_url, "--domain", "lake"]
    await refused(tmp_path / "second", options, "The domain lake is already served")


async def refused(directory: Path, options: list[str], sentence: str) -> None:
    """Check that an engine does not start, and says why once."""
    directory.mkdir(exist_ok=True)
    running = RunningEngine(directory, tuple(options))
    running.launch()
    assert await running.ended() == 1
    said = [line for line in running.log.splitlines() if line.startswith("headwater: ")]
    assert len(said) == 1
    assert sentence in said[0]
    assert running.log.count(sentence) == 1
    assert "Traceback" not in running.log
