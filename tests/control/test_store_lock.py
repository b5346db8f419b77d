"""A store belongs to one engine at a time, and is free once that engine has ended."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.control.store_lock import StoreLock
from headwater.errors import StoreLockedError

HOLDER = """
import sys
from pathlib import Path
from headwater.control.store_lock import StoreLock
lock = StoreLock(Path(sys.argv[1]))
lock.take()
print("held", flush=True)
sys.stdin.read()
"""


def test_a_store_is_made_and_held_until_it_is_released(tmp_path: Path) -> None:
    store = tmp_path / "not" / "there"
    first, second = StoreLock(store), StoreLock(store)
    first.take()
    with pytest.raises(StoreLockedError):
        second.take()
    first.release()
    second.take()
    second.release()
    second.release()


def test_a_refused_engine_learns_who_holds_the_store(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.take()
    with pytest.raises(StoreLockedError) as refused:
        StoreLock(tmp_path).take()
    assert (refused.value.store, refused.value.owner) == (tmp_path, str(os.getpid()))
    assert f"process id {os.getpid()}" in str(refused.value)
    assert refused.value.retryable
    lock.release()


def test_a_killed_holder_leaves_the_store_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(StoreLockedError) as refused:
            StoreLock(tmp_path).take()
        assert refused.value.owner == str(holder.pid)
        holder.kill()
        holder.wait()
        lock = StoreLock(tmp_path)
        lock.take()
    assert (tmp_path / "engine.lock").read_text() == f"{os.getpid()}\n", "nothing of the old owner is left"
    lock.release()


def test_a_longer_number_of_an_earlier_owner_does_not_show_through(tmp_path: Path) -> None:
    (tmp_path / "engine.lock").write_text("9" * 30)
    lock = StoreLock(tmp_path)
    lock.take()
    with pytest.raises(StoreLockedError) as refused:
        StoreLock(tmp_path).take()
    assert refused.value.owner == str(os.getpid())
    lock.release()


def test_a_refused_engine_does_not_release_the_other_ones_lock(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.take()
    for _ in range(3):
        refused = StoreLock(tmp_path)
        with pytest.raises(StoreLockedError):
            refused.take()
        refused.release()
    lock.release()


async def test_a_waiting_engine_gets_the_store_when_it_is_released_and_learns_once_who_has_it(
    tmp_path: Path,
) -> None:
    first, second = StoreLock(tmp_path), StoreLock(tmp_path)
    first.take()
    heard: list[str] = []
    waiting = asyncio.create_task(second.wait(heard.append))
    while not heard:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.3)
    assert not waiting.done()
    first.release()
    await asyncio.wait_for(waiting, 60)
    assert heard == [str(os.getpid())]
    with pytest.raises(StoreLockedError):
        first.take()
    second.release()


async def test_one_of_many_waiting_engines_gets_the_store(tmp_path: Path) -> None:
    first = StoreLock(tmp_path)
    first.take()
    locks = [StoreLock(tmp_path) for _ in range(5)]
    waiting = [asyncio.create_task(lock.wait(lambda owner: None)) for lock in locks]
    await asyncio.sleep(0)
    first.release()
    done, left = await asyncio.wait(waiting, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    assert (len(done), len(left)) == (1, 4)
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
    locks[waiting.index(done.pop())].release()


async def test_an_engine_that_stopped_waiting_does_not_take_the_store(tmp_path: Path) -> None:
    first, second = StoreLock(tmp_path), StoreLock(tmp_path)
    first.take()
    waiting = asyncio.create_task(second.wait(lambda owner: None))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    first.release()
    third = StoreLock(tmp_path)
    third.take()
    third.release()


def test_the_lock_holds_though_its_file_was_removed(tmp_path: Path) -> None:
    lock = StoreLock(tmp_path)
    lock.take()
    (tmp_path / "engine.lock").unlink()
    with pytest.raises(StoreLockedError, match="in use by another engine"):
        StoreLock(tmp_path).take()
    lock.release()
    again = StoreLock(tmp_path)
    again.take()
    again.release()
