"""One engine has a store, until it lets go or dies."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.control.store_lock import StoreLock
from headwater.errors import StoreLockedError

HOLD = """
import sys, time
from pathlib import Path
from headwater.control.store_lock import StoreLock
StoreLock(Path(sys.argv[1])).take()
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_engine_is_told_who_has_the_store(tmp_path: Path) -> None:
    store = tmp_path / "made" / "if missing"
    first = StoreLock(store)
    first.take()
    with pytest.raises(StoreLockedError, match=str(os.getpid())) as refused:
        StoreLock(store).take()
    assert refused.value.retryable
    first.release()


def test_a_released_store_can_be_taken(tmp_path: Path) -> None:
    first, second = StoreLock(tmp_path), StoreLock(tmp_path)
    first.take()
    first.release()
    first.release()
    second.take()
    second.release()


def test_the_store_of_a_killed_engine_can_be_taken(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(StoreLockedError, match=str(holder.pid)):
        StoreLock(tmp_path).take()
    holder.kill()
    holder.wait()
    lock = StoreLock(tmp_path)
    lock.take()
    lock.release()
    holder.stdout.close()
