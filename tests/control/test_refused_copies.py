"""A write that a target refuses never loses a message of its origin, whatever the retention."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import ENOSPC
from pathlib import Path
from typing import Any

import pytest

from control.copiers import Copier, copying, count_is, create, held, publish
from doors import Door, Wanted
from headwater.bus.connection import NoRespondersError
from headwater.control.account import AccountLimits
from headwater.errors import DiskError
from headwater.model.stream import Storage
from headwater.stream import committer
from headwater.stream.replica import adopter
from simulation.disks import BreakableDisk, Fault
from waits import until

pytestmark = pytest.mark.usefixtures("impatient")

RETENTIONS = ["workqueue", "interest"]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, first, most in (
        (committer, "RETRY_FIRST_S", "RETRY_MOST_S"),
        (adopter, "FIRST_PAUSE_S", "LONGEST_PAUSE_S"),
    ):
        monkeypatch.setattr(module, first, 0.01)
        monkeypatch.setattr(module, most, 0.05)
    monkeypatch.setattr("headwater.upstreams.upstreams.WATCH_S", 0.02)


@contextmanager
def refusing(door: Door, target: str) -> Iterator[None]:
    """Have a target's next sync refused, and its rebuild last until the block ends."""
    store: Any = door.domain.stream(target)._store
    sync, replay = store.log.sync, store.replay
    refusals, released = iter([1]), threading.Event()

    def refused() -> None:
        if next(refusals, None) is not None:
            raise DiskError(store.directory, "sync", ENOSPC)
        sync()

    def slow() -> Any:
        assert released.wait(60)
        return replay()

    store.log.sync, store.replay = refused, slow
    try:
        yield
    finally:
        released.set()
        store.log.sync, store.replay = sync, replay


async def numbers(door: Door, *streams: str) -> list[set[bytes]]:
    return [{m.data for m in await held(door, stream)} for stream in streams]


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_an_origin_keeps_what_a_target_could_not_store_while_it_rebuilds(
    tmp_path: Path, retention: str
) -> None:
    async with copying(tmp_path) as (door, copier):
        await create(door, name="O", subjects=["o"], retention=retention)
        await create(door, name="A", sources=[{"name": "O"}])
        await create(door, name="B", mirror={"name": "O"})
        await publish(door, "o", 20)
        with refusing(door, "A"):
            await copier.tick()
            for _ in range(10):
                await asyncio.sleep(0.02)  # long enough for several looks at the holds
                await copier.tick()
            assert (await door.domain.stream("O").reading.state()).messages == 20
        await copier.until(count_is(door, "A", 20))
        await copier.until(count_is(door, "B", 20))
        await until(count_is(door, "O", 0), "the origin is empty")
        wanted = {b"o %d" % number for number in range(20)}
        assert await numbers(door, "A", "B") == [wanted, wanted]


@pytest.mark.parametrize("fault", [Fault.FULL, Fault.REFUSED, Fault.TORN, Fault.LATE])
@pytest.mark.parametrize("retention", RETENTIONS)
async def test_a_disk_that_breaks_again_and_again_loses_nothing(
    tmp_path: Path, retention: str, fault: Fault
) -> None:
    disk = BreakableDisk(tmp_path)
    async with copying(tmp_path, Wanted(disk=disk)) as (door, copier):
        await create(door, name="O", subjects=["o"], retention=retention)
        await create(door, name="P", subjects=["p"], retention=retention)
        await create(door, name="A", sources=[{"name": "O"}, {"name": "P"}])
        await create(door, name="B", mirror={"name": "O"})
        acked: set[bytes] = set()
        for round in range(6):
            await _publish_acked(door, acked, "o", 40, round)
            await _publish_acked(door, acked, "p", 40, round)
            await door.domain.stream("O").checkpoint()  # its files are linked, what follows is not
            if round % 2:
                disk.break_always(fault)
            else:
                disk.break_at(disk._counts["sync"] + 1 + round, fault, "sync")
            for _ in range(4):
                await asyncio.wait_for(copier.tick(), 60)
                await door.asker.ask("STREAM.INFO.A")
            disk.heal()
        await _copied(door, copier, acked)


async def _publish_acked(door: Door, acked: set[bytes], subject: str, count: int, round: int) -> None:
    """Publish until each message is acknowledged."""
    for number in range(count):
        data = b"%s %d %d" % (subject.encode(), round, number)
        while "error" in await door.asker.publish(subject, data):
            await asyncio.sleep(0.01)
        acked.add(data)


async def _copied(door: Door, copier: Copier, acked: set[bytes]) -> None:
    """Return once all is copied, exactly once, and nothing is left at the origins."""

    async def is_empty() -> bool:
        left = [(await door.domain.stream(name).reading.state()).messages for name in ("O", "P")]
        return left == [0, 0]

    await copier.until(is_empty)
    a, b = [m.data for m in await held(door, "A")], [m.data for m in await held(door, "B")]
    assert sorted(a) == sorted(acked)
    assert sorted(b) == sorted(data for data in acked if data.startswith(b"o"))


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[Path]:
    """Mount a small file system in memory; skip where that is not allowed."""
    directory.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)]
    if os.getuid() != 0 or subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only, where mounts are allowed")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


@pytest.mark.parametrize("retention", RETENTIONS)
async def test_a_disk_that_is_full_for_a_while_loses_nothing(tmp_path: Path, retention: str) -> None:
    with small_disk(tmp_path / "disk", "24m") as store:
        async with copying(store) as (door, copier):
            await create(door, name="O", subjects=["o"], retention=retention)
            await create(door, name="P", subjects=["p"], retention=retention)
            await create(door, name="A", sources=[{"name": "O"}, {"name": "P"}])
            await create(door, name="B", mirror={"name": "O"})
            acked: set[bytes] = set()
            for round in range(3):
                await _publish_acked(door, acked, "o", 50, round)
                await _publish_acked(door, acked, "p", 50, round)
                filler = store / "filler"
                with filler.open("wb", buffering=0) as file, suppress(OSError):
                    while file.write(bytes(4096)):
                        pass
                for _ in range(3):
                    with suppress(NoRespondersError):
                        await copier.tick()
                filler.unlink()
            await _copied(door, copier, acked)


@pytest.mark.parametrize("folded", [False, True])
@pytest.mark.parametrize("kind", ["mirror", "sources"])
async def test_a_copy_stops_at_the_limit_of_its_account_and_continues_when_there_is_room(
    tmp_path: Path, kind: str, folded: bool
) -> None:
    limit = 21 * 1100
    async with copying(tmp_path, Wanted(limits=AccountLimits(max_storage=limit))) as (door, copier):
        await create(door, name="O", subjects=["o"])
        await create(door, name="X", subjects=["x"])
        for subject, count in (("o", 10), ("x", 5)):
            for number in range(count):
                answer = await door.asker.publish(subject, b"%03d" % number + b"x" * 1000)
                assert "error" not in answer, answer
        if folded:
            await door.domain.stream("O").checkpoint()
        upstream = {"mirror": {"name": "O"}} if kind == "mirror" else {"sources": [{"name": "O"}]}
        await create(door, name="M", **upstream)

        async def is_refused() -> bool:
            info = await door.asker.ask("STREAM.INFO.M")
            shown = info["mirror"] if kind == "mirror" else info["sources"][0]
            return bool(shown.get("error", {}).get("err_code") == 10002)

        await copier.until(is_refused)
        assert await door.domain.used(Storage.FILE) <= limit
        copied = await held(door, "M")
        assert len(copied) < 10
        await door.domain.delete_stream("X")
        await copier.until(count_is(door, "M", 10))
        assert [int(message.data[:3]) for message in await held(door, "M")] == list(range(10))
