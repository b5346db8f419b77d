"""An engine on a full disk: it starts, serves what it has, refuses the rest, and recovers by itself."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import nats
import nats.errors
import nats.js.errors
import pytest
from nats.aio.client import Client
from nats.js.api import AckPolicy, ConsumerConfig

from engines import RunningEngine
from headwater.control.reserve import NAME, SIZE
from waits import until

STREAMS = ("A", "B", "C")
STORE_FAILED = 10077


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 32 MiB."""
    if os.geteuid() != 0:
        pytest.skip("a small disk is a tmpfs of its own, and mounting one needs root")
    point = tmp_path / "disk"
    point.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(point)], capture_output=True, text=True
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.strip()}")
    yield point
    subprocess.run(["umount", "-l", str(point)], check=True)


def fill(disk: Path) -> None:
    """Take all room there is, to the last block."""
    with (disk / "filler").open("ab", buffering=0) as file, suppress(OSError):
        for step in (1 << 20, 4096, 1):
            with suppress(OSError):
                while True:
                    file.write(b"x" * step)


def free(disk: Path) -> None:
    (disk / "filler").unlink()


@asynccontextmanager
async def connected(running: RunningEngine) -> AsyncIterator[Client]:
    client = await nats.connect(running.client_url, allow_reconnect=False)
    try:
        yield client
    finally:
        await client.close()


class Promises:
    """What clients were promised, by stream: acknowledged messages, and confirmed acks of them."""

    def __init__(self) -> None:
        self.stored: dict[str, dict[int, bytes]] = {name: {} for name in STREAMS}
        self.confirmed: dict[str, set[int]] = {name: set() for name in STREAMS}
        self.refused: dict[str, list[int]] = {name: [] for name in STREAMS}
        self._number = 0

    async def publish(self, client: Client, name: str, size: int = 2000) -> bool:
        """Return whether a message was stored; one that was refused was refused as nats-server does."""
        self._number += 1
        data = b"%d " % self._number + os.urandom(size)
        try:
            ack = await client.jetstream(timeout=60).publish(f"{name}.x", data)
        except nats.js.errors.APIError as error:
            self.refused[name].append(error.err_code or 0)
            return False
        assert ack.seq not in self.stored[name], "one sequence for two messages"
        self.stored[name][ack.seq] = data
        return True

    async def take(self, client: Client, name: str, count: int, wait_s: float = 60) -> int:
        """Fetch messages, confirm their acks, and return how many were confirmed in this time."""
        subscription = await client.jetstream(timeout=60).pull_subscribe_bind("c", name)
        confirmed = 0
        for message in await subscription.fetch(count, timeout=60):
            seq = message.metadata.sequence.stream
            assert message.data == self.stored[name].get(seq, message.data)
            assert seq not in self.confirmed[name], "delivered again after a confirmed ack"
            with suppress(nats.errors.TimeoutError):
                await message.ack_sync(timeout=wait_s)
                self.confirmed[name].add(seq)
                confirmed += 1
        return confirmed

    async def audit(self, client: Client) -> None:
        """Compare all that is stored with what was promised."""
        js = client.jetstream(timeout=60)
        for name, stored in self.stored.items():
            assert (await js.stream_info(name)).state.lost is None
            for seq, data in stored.items():
                assert (await js.get_msg(name, seq)).data == data


async def declare(client: Client) -> None:
    js = client.jetstream(timeout=60)
    for name in STREAMS:
        await js.add_stream(name=name, subjects=[f"{name}.>"])
        await js.add_consumer(
            name, ConsumerConfig(durable_name="c", ack_policy=AckPolicy.EXPLICIT, ack_wait=1)
        )


async def fill_under_load(disk: Path, client: Client, promises: Promises) -> None:
    """Return once the disk is full and each stream has refused a message."""

    async def load(name: str) -> None:
        while not promises.refused[name]:
            await promises.publish(client, name)

    publishers = asyncio.gather(*map(load, STREAMS))
    await until(lambda: all(len(stored) > 20 for stored in promises.stored.values()))
    while not publishers.done():
        await asyncio.to_thread(fill, disk)
        await asyncio.sleep(0.01)
    await publishers


async def serve_while_full(running: RunningEngine, disk: Path, promises: Promises) -> None:
    """Check what holds on a full disk: reads and deliveries, and no promise that is not durable."""
    async with connected(running) as client:
        await promises.audit(client)
        await asyncio.to_thread(fill, disk)
        for name in STREAMS:
            promises.refused[name].clear()
            while await promises.publish(client, name):
                await asyncio.to_thread(fill, disk)
            assert promises.refused[name] == [STORE_FAILED]
            await promises.take(client, name, 3, wait_s=0.5)


async def test_an_engine_starts_on_a_full_disk_and_continues_when_there_is_room(
    small_disk: Path, tmp_path: Path
) -> None:
    running = RunningEngine(tmp_path, store=small_disk / "store")
    reserve, promises = small_disk / "store" / NAME, Promises()
    try:
        await running.start()
        async with connected(running) as client:
            await declare(client)
            await until(lambda: reserve.exists() and reserve.stat().st_size == SIZE, "the reserve is made")
            await fill_under_load(small_disk, client, promises)
        for _ in range(2):  # the second start has only what the first one left of the reserve
            await running.kill()
            await asyncio.to_thread(fill, small_disk)
            await running.start()
            assert "offline" not in running.log
            await serve_while_full(running, small_disk, promises)
        assert running.log.count("is full: releasing its reserve of") == 2
        assert reserve.stat().st_size > SIZE // 2, "what was not needed is kept back again"
        free(small_disk)
        async with connected(running) as client:
            for name in STREAMS:
                await until(lambda name=name: promises.publish(client, name), "it stores again")  # type: ignore[misc]
                assert await promises.take(client, name, 2)
        await running.says("has space again; its reserve is restored")
        assert reserve.stat().st_size == SIZE
        await running.kill()
        await running.start()
        async with connected(running) as client:
            await promises.audit(client)
            for name in STREAMS:
                assert await promises.take(client, name, 5)
        assert "Traceback" not in running.log
    finally:
        await running.stop()


def contents(store: Path) -> dict[str, bytes]:
    """Return every file except those that record the last start."""
    found = (path for path in store.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in found if path.name not in ("engine.lock", "epoch")}


async def test_without_a_reserve_a_full_disk_is_one_sentence_and_nothing_changes(
    small_disk: Path, tmp_path: Path
) -> None:
    running = RunningEngine(tmp_path, store=small_disk / "store")
    promises = Promises()
    try:
        await running.start()
        async with connected(running) as client:
            await declare(client)
            for name in STREAMS:
                assert await promises.publish(client, name)
        await running.stop()
        (small_disk / "store" / NAME).unlink(missing_ok=True)
        fill(small_disk)
        before, said = contents(small_disk / "store"), len(running.log)
        running.launch()
        assert await running.ended() == 1
        lines = running.log[said:].splitlines()
        assert lines[-1].startswith("headwater: cannot write ")
        assert lines[-1].endswith(": the disk is full")
        assert "Traceback" not in running.log
        assert contents(small_disk / "store") == before
        free(small_disk)
        await running.start()
        async with connected(running) as client:
            await promises.audit(client)
    finally:
        await running.stop()


async def test_a_store_on_a_read_only_file_system_is_refused_in_one_sentence(
    small_disk: Path, tmp_path: Path
) -> None:
    running = RunningEngine(tmp_path, store=small_disk / "store")
    await running.start()
    await running.stop()
    said = len(running.log)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    running.launch()
    assert await running.ended() == 2
    assert running.log[said:] == f"headwater: store: {running.store} is on a read-only file system\n"
