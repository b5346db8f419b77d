"""A kept child is launched again whenever it ends, also after a launch that failed, until it is stopped."""

from __future__ import annotations

import os
import signal
import sys

from headwater.backoff import Backoff
from headwater.process.child_keeper import ChildKeeper
from headwater.process.child_process import ChildProcess
from waits import until

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


class Kept:
    """A child with a keeper, and a record of its launches."""

    def __init__(self, failures: int = 0) -> None:
        self.child = ChildProcess(5.0, lambda line: None)
        self.pids: list[int | None] = []
        self.waits: list[float] = []
        self.failures = failures
        self.keeper = ChildKeeper("test", self.child, self.launch, Backoff(0.01, 0.02), self.waits.append)

    async def launch(self) -> None:
        if self.failures:
            self.failures -= 1
            return
        await self.child.start(SLEEP)
        self.pids.append(self.child.pid)


async def test_a_child_that_dies_is_launched_again() -> None:
    kept = Kept()
    kept.keeper.begin()
    kept.keeper.begin()
    await until(lambda: len(kept.pids) == 1)
    assert kept.pids[0] is not None
    os.kill(kept.pids[0], signal.SIGKILL)
    await until(lambda: len(kept.pids) == 2)
    assert kept.waits == [0.01]
    await kept.keeper.stop()
    assert not kept.child.is_running


async def test_a_child_that_runs_already_is_not_launched() -> None:
    kept = Kept()
    await kept.launch()
    kept.keeper.begin()
    assert kept.pids[0] is not None
    os.kill(kept.pids[0], signal.SIGKILL)
    await until(lambda: len(kept.pids) == 2)
    await kept.keeper.stop()


async def test_a_launch_that_fails_is_repeated_after_longer_waits() -> None:
    kept = Kept(failures=3)
    kept.keeper.begin()
    await until(lambda: len(kept.pids) == 1)
    assert kept.waits == [0.01, 0.02, 0.02]
    await kept.keeper.stop()


async def test_a_keeper_that_never_began_can_be_stopped() -> None:
    kept = Kept()
    await kept.keeper.stop()
    assert kept.pids == []
