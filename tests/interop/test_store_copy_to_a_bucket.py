"""A store is copied to a real S3 server, served from there, and copied back, with the command."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import nats
import pytest
from nats.js.api import StorageType

from engines import RunningEngine, engine
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from seaweed import SeaweedServer


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, seaweed_server: SeaweedServer) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def address(seaweed_server: SeaweedServer) -> BucketAddress:
    return seaweed_server.new_bucket().below("prod")


async def store(*arguments: str) -> tuple[int, str]:
    """Return the exit code and the output of `headwater store copy`."""
    command = [sys.executable, "-m", "headwater", "store", "copy", *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, env=dict(os.environ)
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()


async def publish(running: RunningEngine, first: int, last: int) -> None:
    client = await nats.connect(running.client_url)
    js = client.jetstream(timeout=60)
    for number in range(first, last + 1):
        assert (await js.publish("orders.new", b"%d" % number)).seq == number
    await client.close()


async def require(running: RunningEngine, last: int) -> None:
    client = await nats.connect(running.client_url)
    js = client.jetstream(timeout=60)
    assert (await js.stream_info("ORDERS")).state.messages == last
    for number in range(1, last + 1):
        assert (await js.get_msg("ORDERS", number)).data == b"%d" % number
    await client.close()


async def test_a_store_moves_to_a_bucket_and_back(tmp_path: Path, address: BucketAddress) -> None:
    places = {name: tmp_path / name for name in ("first", "second", "third")}
    for place in places.values():
        place.mkdir()
    lake, below, home = (str(place / "store") for place in places.values())
    quick = ("--fold-interval-s", "0.1")
    async with engine(places["first"], *quick) as running:
        client = await nats.connect(running.client_url)
        await client.jetstream().add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
        await client.close()
        await publish(running, 1, 20)
        code, said = await store(lake, address.url)
        assert (code, "another" in said or "in use" in said or "locked" in said) == (2, True), said
    code, said = await store(lake, address.url, "--dry-run")
    assert (code, "would copy" in said) == (0, True), said
    assert not list(Bucket(address).list())
    code, said = await store(lake, address.url)
    assert (code, "every file was compared" in said) == (0, True), said
    code, said = await store(lake, address.url)
    assert (code, "is not empty" in said) == (2, True), said
    code, said = await store(address.url, below, "--tables-stay")
    assert code == 0, said
    tables = ("--tables", address.url)
    async with engine(places["second"], *quick, *tables) as running:
        await require(running, 20)
        await publish(running, 21, 40)
    code, said = await store(address.url, str(tmp_path / "old"), "--tables-stay")
    assert (code, "name the directory of its store" in said) == (2, True), said
    code, said = await store(below, home)
    assert code == 0, said
    async with engine(places["third"], *quick) as running:
        await require(running, 40)
        await publish(running, 41, 45)


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("{tmp}/none", "{tmp}/x", "is not a directory"),
        ("s3://no-such-bucket/prod", "{tmp}/x", "the bucket does not exist"),
        ("{tmp}", "s3://", "has no bucket name"),
        ("{tmp}", "ftp://x/y", "is not the address of a bucket"),
        ("{tmp}", "{tmp}/x", "has no usable catalog"),
    ],
)
async def test_what_cannot_be_copied_is_one_sentence(
    tmp_path: Path, source: str, target: str, said: str
) -> None:
    code, output = await store(source.format(tmp=tmp_path), target.format(tmp=tmp_path))
    assert code == 2
    assert said in output
    assert "Traceback" not in output
