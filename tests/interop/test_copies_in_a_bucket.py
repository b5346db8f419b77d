"""Sources and mirrors whose tables are in a bucket: a real engine, a real S3 server, transfers in here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext
from nats.js.api import StorageType, StreamConfig, StreamSource

from cables import Cable
from engines import RunningEngine, engine
from headwater.disk import RealDisk
from headwater.model.unique import unique_id
from headwater.objects.address import BucketAddress
from headwater.objects.bucket import Bucket
from headwater.replication.work import INLINE_BYTES
from headwater.table.remote_table import read_remote
from headwater.table.staging import OBJECT_STAGING
from interop.copying import replicating
from interop.test_tables_in_a_bucket import QUICK, flags, holds
from seaweed import SeaweedServer
from waits import until

COUNT = 300
DATA = bytes(3000)
assert COUNT * len(DATA) > 3 * INLINE_BYTES, "too much for a receipt"
SUBMITTED = ("--replicator", "submitted")


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch, seaweed_server: SeaweedServer) -> None:
    for name, value in seaweed_server.environment.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def address(seaweed_server: SeaweedServer) -> BucketAddress:
    return seaweed_server.new_bucket().below("prod")


@asynccontextmanager
async def connected(running: RunningEngine) -> AsyncIterator[JetStreamContext]:
    client = await nats.connect(running.client_url)
    try:
        yield client.jetstream(timeout=60)
    finally:
        await client.close()


async def publish(js: JetStreamContext, first: int, last: int, subject: str = "orders.new") -> None:
    waiting = [await js.publish_async(subject, b"%06d" % n + DATA) for n in range(first, last + 1)]
    await asyncio.gather(*waiting)


async def copied(js: JetStreamContext, stream: str, count: int) -> bool:
    return (await js.stream_info(stream)).state.messages == count


async def numbers(js: JetStreamContext, stream: str, count: int) -> list[int]:
    """Return the number of each message, as a consumer gets them."""
    subscription = await js.pull_subscribe("", stream=stream, durable=unique_id())
    got: list[int] = []
    while len(got) < count:
        messages = await subscription.fetch(min(count - len(got), 200), timeout=60)
        got += [int(each.data[:6]) for each in messages]
        for each in messages:
            await each.ack()
    return got


def staged(address: BucketAddress) -> list[str]:
    return [info.key for info in Bucket(address).list() if f"/{OBJECT_STAGING}/" in info.key]


def logged(running: RunningEngine) -> str:
    return running.log[-4000:]


async def test_sources_and_mirrors_are_copied_within_the_bucket(
    tmp_path: Path, address: BucketAddress
) -> None:
    async with engine(tmp_path, *flags(address), *SUBMITTED) as running:
        async with connected(running) as js:
            await copies_of_a_stream(running, js, address)
        await running.kill()
        await running.start()
        async with connected(running) as js:
            for name in ("M", "S", "MM"):
                assert await numbers(js, name, COUNT + 20) == list(range(1, COUNT + 21))


async def copies_of_a_stream(running: RunningEngine, js: JetStreamContext, address: BucketAddress) -> None:
    """Copy a stream in four ways, first its files, then its tail."""
    await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
    await publish(js, 1, COUNT)
    await until(lambda: holds(address, list(range(1, COUNT + 1))), "folded", lambda: logged(running))
    source = StreamSource(name="ORDERS")
    some = StreamSource(name="ORDERS", filter_subject="orders.other")
    await js.add_stream(StreamConfig(name="M", mirror=source))
    await js.add_stream(StreamConfig(name="S", sources=[source]))
    await js.add_stream(StreamConfig(name="F", sources=[some]))
    await js.add_stream(StreamConfig(name="MM", mirror=StreamSource(name="S")))
    async with replicating(running, "$G"):
        for name in ("M", "S", "MM"):
            await until(lambda: copied(js, name, COUNT), name, lambda: logged(running))  # noqa: B023
        await publish(js, COUNT + 1, COUNT + 20, "orders.other")
        for name in ("M", "S", "MM"):
            await until(lambda: copied(js, name, COUNT + 20), name, lambda: logged(running))  # noqa: B023
        await until(lambda: copied(js, "F", 20), "F", lambda: logged(running))
    wanted = list(range(1, COUNT + 21))
    for name in ("M", "S", "MM"):
        assert await numbers(js, name, COUNT + 20) == wanted
        await until(lambda: holds(address, wanted, name), name, lambda: logged(running))  # noqa: B023
    assert not staged(address)
    assert not list(running.store.rglob("*.parquet"))


async def test_a_copy_waits_while_the_bucket_is_away_and_is_made_once(
    tmp_path: Path, address: BucketAddress, seaweed_server: SeaweedServer
) -> None:
    cable = Cable(seaweed_server.port)
    await cable.restore()
    through = replace(address, endpoint=f"http://127.0.0.1:{cable.port}")
    async with engine(tmp_path, *flags(through), *SUBMITTED) as running:
        async with connected(running) as js, replicating(running, "$G"):
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await js.add_stream(StreamConfig(name="S", sources=[StreamSource(name="ORDERS")]))
            for round in range(3):
                await publish(js, round * COUNT + 1, (round + 1) * COUNT)
                await asyncio.sleep(0.3 * round)
                await cable.cut()
                await publish(js, 0, 0, f"orders.cut.{round}")
                await asyncio.sleep(1)
                await cable.restore()
            count = 3 * COUNT + 3
            await until(lambda: copied(js, "S", count), "all is copied", lambda: logged(running))
            wanted = [
                n for round in range(3) for n in [*range(round * COUNT + 1, (round + 1) * COUNT + 1), 0]
            ]
            assert await numbers(js, "S", count) == wanted
    await cable.cut()


async def test_an_engine_killed_in_the_middle_of_copies_copies_each_message_once(
    tmp_path: Path, address: BucketAddress
) -> None:
    async with engine(tmp_path, *flags(address), *SUBMITTED) as running:
        async with connected(running) as js:
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await js.add_stream(StreamConfig(name="S", sources=[StreamSource(name="ORDERS")]))
            await js.add_stream(StreamConfig(name="M", mirror=StreamSource(name="ORDERS")))
        for round in range(4):
            async with connected(running) as js, replicating(running, "$G"):
                await publish(js, round * COUNT + 1, (round + 1) * COUNT)
                await asyncio.sleep(0.2 * round)
                await running.kill()
            await running.start()
        async with connected(running) as js, replicating(running, "$G"):
            for name in ("S", "M"):
                await until(lambda: copied(js, name, 4 * COUNT), name, lambda: logged(running))  # noqa: B023
                assert await numbers(js, name, 4 * COUNT) == list(range(1, 4 * COUNT + 1))


async def test_a_table_on_the_disk_and_a_folder_are_origins_too(
    tmp_path: Path, address: BucketAddress
) -> None:
    async with engine(tmp_path, *QUICK, *SUBMITTED) as running, connected(running) as js:
        await js.add_stream(name="OLD", subjects=["old.>"], storage=StorageType.FILE)
        await js.add_stream(StreamConfig(name="BACK", sources=[StreamSource(name="NEW")]))
        await publish(js, 1, COUNT, "old.a")
    async with engine(tmp_path, *flags(address), *SUBMITTED) as running, connected(running) as js:
        await js.add_stream(StreamConfig(name="NEW", sources=[StreamSource(name="OLD")]))
        remote = read_remote(RealDisk(), running.store / "$G" / "NEW")
        assert remote is not None
        async with replicating(running, "$G"):
            for name in ("NEW", "BACK"):
                await until(lambda: copied(js, name, COUNT), name, lambda: logged(running))  # noqa: B023
                assert await numbers(js, name, COUNT) == list(range(1, COUNT + 1))
    folder = BucketAddress(f"file://{tmp_path}/tables/prod")
    other = tmp_path / "other"
    other.mkdir()
    async with engine(other, *QUICK, *SUBMITTED, "--tables", folder.url) as running:
        async with connected(running) as js, replicating(running, "$G"):
            await js.add_stream(name="ORDERS", subjects=["orders.>"], storage=StorageType.FILE)
            await publish(js, 1, COUNT)
            await until(lambda: holds(folder, list(range(1, COUNT + 1))), "folded", lambda: logged(running))
            await js.add_stream(StreamConfig(name="M", mirror=StreamSource(name="ORDERS")))
            await until(lambda: copied(js, "M", COUNT), "M", lambda: logged(running))
            assert await numbers(js, "M", COUNT) == list(range(1, COUNT + 1))
