"""A store moves into a journal, an engine with an empty directory takes it over, and it moves back."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import nats
import pytest
from nats.js.api import ConsumerConfig

from doors import connected
from engines import RunningEngine, engine
from headwater.wire.stan_messages import FIRST
from journal_cluster import JournalCluster
from seaweed import SeaweedServer
from stan_door import CLUSTER, StanClient

QUICK = ("--fold-interval-s", "0.1", "--stan", CLUSTER)
COUNT, FETCHED, ACKED = 30, 10, 4


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, seaweed_server: SeaweedServer) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)


async def copy(*arguments: str) -> tuple[int, str]:
    """Return the exit code and the output of `headwater store copy`."""
    command = [sys.executable, "-m", "headwater", "store", "copy", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=dict(os.environ)
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def fill(running: RunningEngine) -> None:
    """Have a stream with a consumer that holds unacknowledged messages, a key, and a durable of streaming."""
    client = await nats.connect(running.client_url)
    js = client.jetstream(timeout=60)
    await js.add_stream(name="ORDERS", subjects=["orders.>"])
    config = ConsumerConfig(durable_name="work", ack_wait=3600)
    await js.add_consumer("ORDERS", config)
    await publish(running, 1, COUNT)
    pull = await js.pull_subscribe_bind("work", "ORDERS")
    for message in (await pull.fetch(FETCHED, timeout=60))[:ACKED]:
        await message.ack_sync(timeout=60)
    await (await js.create_key_value(bucket="KEYS")).put("colour", b"blue")
    await client.close()
    streaming = StanClient(await connected(running.client_url))
    await streaming.connect()
    await streaming.publish_all("foo", [b"1", b"2", b"3"])
    heard = await streaming.subscribe("foo", durableName="dur", startPosition=FIRST)
    await heard.got(3)
    await streaming.close_subscription(heard)
    await streaming.close()
    await streaming.connection.close()


async def publish(running: RunningEngine, first: int, last: int) -> None:
    client = await nats.connect(running.client_url)
    js = client.jetstream(timeout=60)
    for number in range(first, last + 1):
        assert (await js.publish("orders.new", b"%d" % number)).seq == number
    await client.close()


async def require(running: RunningEngine, last: int, streamed: list[bytes]) -> None:
    """Fail unless everything is there that `fill` has left, and what followed."""
    client = await nats.connect(running.client_url)
    js = client.jetstream(timeout=60)
    for number in range(1, last + 1):
        assert (await js.get_msg("ORDERS", number)).data == b"%d" % number
    found = await js.consumer_info("ORDERS", "work")
    assert found.num_ack_pending == FETCHED - ACKED
    assert found.delivered is not None
    assert found.delivered.stream_seq == FETCHED
    assert found.num_pending == last - FETCHED
    assert (await (await js.key_value("KEYS")).get("colour")).value == b"blue"
    await client.close()
    streaming = StanClient(await connected(running.client_url))
    await streaming.connect()
    await streaming.publish_all("foo", streamed[-1:])
    heard = await streaming.subscribe("foo", durableName="dur", startPosition=FIRST)
    assert (await heard.got(1)).datas == streamed[-1:]
    await streaming.close_subscription(heard)
    await streaming.close()
    await streaming.connection.close()


@pytest.mark.parametrize("kind", ["jetstream", "objects"])
async def test_a_store_moves_into_a_journal_and_back(
    kind: str, tmp_path: Path, seaweed_server: SeaweedServer, journal_servers: JournalCluster
) -> None:
    bucket = seaweed_server.new_bucket()
    tables = bucket.below("prod").url
    journal = f"{journal_servers.url}/MOVED" if kind == "jetstream" else bucket.below("journal").url
    for name in ("local", "taken", "back"):
        (tmp_path / name).mkdir()
    lake, home = str(tmp_path / "local" / "store"), str(tmp_path / "back" / "store")
    into = (lake, tables, "--to-journal", journal)
    back = (tables, home, "--from-journal", journal)
    async with engine(tmp_path / "local", *QUICK) as running:
        await fill(running)
        code, said = await copy(*into)
        assert (code, "stop the engine first" in said) == (2, True), said
    code, said = await copy(*into, "--dry-run")
    assert (code, "would copy" in said) == (0, True), said
    code, said = await copy(*into)
    assert (code, "every file was compared" in said) == (0, True), said
    assert "not-a-secret" not in said
    code, said = await copy(*into[:1], bucket.below("other").url, *into[2:])
    assert (code, "is not empty" in said, said.count("\n")) == (2, True, 1), said
    async with engine(tmp_path / "taken", *QUICK, "--tables", tables, "--journal", journal) as running:
        await require(running, COUNT, [b"4"])
        await publish(running, COUNT + 1, COUNT + 5)
        code, said = await copy(*back)
        assert (code, "an engine serves the store" in said) == (2, True), said
    code, said = await copy(*back)
    assert (code, "every file was compared" in said) == (0, True), said
    async with engine(tmp_path / "back", *QUICK) as running:
        await require(running, COUNT + 5, [b"5"])
        await publish(running, COUNT + 6, COUNT + 8)
