"""An engine with tables and journal in a container of Azure's kind (Azurite), and one that takes it over."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext

import headwater
from azurite import AzuriteServer
from engines import RunningEngine, engine
from headwater.objects.address import BucketAddress
from waits import until

QUICK = ("--fold-interval-s", "0.1", "--compact-interval-s", "0.3", "--erase-grace-s", "0.5")


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch, azurite_server: AzuriteServer) -> BucketAddress:
    for name, value in azurite_server.environment.items():
        monkeypatch.setenv(name, value)
    return azurite_server.new_container()


@asynccontextmanager
async def connected(running: RunningEngine) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(running.client_url)
    try:
        yield client.jetstream(timeout=60)
    finally:
        await client.close()


def seqs_in(address: BucketAddress) -> list[int]:
    """Return the sequences that a reader finds in the container."""
    try:
        found = headwater.read(f"{address.url}/tables/$G/ORDERS", columns=["seq"])
    except headwater.Error:
        return []
    return [int(seq) for seq in found["seq"].to_pylist()]


def holds(address: BucketAddress, last: int) -> bool:
    return seqs_in(address) == list(range(1, last + 1))


async def test_a_store_in_a_container_is_folded_read_and_taken_over(
    address: BucketAddress, tmp_path: Path
) -> None:
    flags = ("--tables", f"{address.url}/tables", "--journal", f"{address.url}/journal")
    async with engine(tmp_path / "first", *QUICK, *flags) as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"])
            for last in (10, 20):  # two commits at least
                for number in range(last - 9, last + 1):
                    assert (await js.publish("orders.new", b"%d" % number)).seq == number
                await until(partial(holds, address, last))
            assert (await js.publish("orders.new", b"21")).seq == 21
        await running.kill()
    shutil.rmtree(tmp_path / "first")
    async with engine(tmp_path / "second", *QUICK, *flags) as running:
        async with connected(running) as js:
            for number in range(1, 22):
                assert (await js.get_msg("ORDERS", number)).data == b"%d" % number
