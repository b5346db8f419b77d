"""Lanes bound what runs and what waits, and one lane does not hold up another."""

from __future__ import annotations

import asyncio
from functools import partial

from headwater.api.lanes import Lanes, Work
from waits import until


class Gate:
    """Work that runs until it is released, and counts how much of it runs at once."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.running = self.peak = self.done = 0

    def work(self) -> Work:
        async def work() -> None:
            self.running += 1
            self.peak = max(self.peak, self.running)
            await self.open.wait()
            self.running -= 1
            self.done += 1

        return work


async def test_no_more_than_the_width_runs_at_once_and_everything_runs() -> None:
    lanes, gate = Lanes(width=3, depth=100, total=100), Gate()
    assert all(lanes.submit("s", gate.work()) for _ in range(20))
    await asyncio.sleep(0)
    gate.open.set()
    await lanes.drain()
    assert (gate.peak, gate.done, lanes.load) == (3, 20, 0)


async def test_work_beyond_the_depth_is_refused_and_accepted_again_later() -> None:
    lanes, gate = Lanes(width=1, depth=2, total=100), Gate()
    assert [lanes.submit("s", gate.work()) for _ in range(4)] == [True, True, True, False]
    gate.open.set()
    await lanes.drain()
    assert lanes.submit("s", gate.work())
    await lanes.drain()
    assert gate.done == 4


async def test_work_beyond_the_total_is_refused_in_every_lane() -> None:
    lanes, gate = Lanes(width=1, depth=10, total=2), Gate()
    assert [lanes.submit(name, gate.work()) for name in "abc"] == [True, True, False]
    gate.open.set()
    await lanes.drain()


async def test_a_busy_lane_does_not_delay_another() -> None:
    lanes, busy, free = Lanes(width=1, depth=10, total=100), Gate(), Gate()
    lanes.submit("busy", busy.work())
    lanes.submit("busy", busy.work())
    free.open.set()
    lanes.submit("free", free.work())
    while not free.done:
        await asyncio.sleep(0)
    assert busy.done == 0
    busy.open.set()
    await lanes.drain()


async def test_a_lane_that_is_done_leaves_nothing_behind() -> None:
    lanes, gate = Lanes(width=2, depth=10, total=100), Gate()
    gate.open.set()
    for number in range(50):
        lanes.submit(f"s{number}", gate.work())
    await lanes.drain()
    assert lanes._lanes == {}


async def test_work_that_fails_does_not_strand_what_waits_behind_it() -> None:
    lanes, gate = Lanes(width=1, depth=10, total=100), Gate()
    gate.open.set()

    async def broken() -> None:
        raise ZeroDivisionError

    lanes.submit("s", broken)
    lanes.submit("s", gate.work())
    await lanes.drain()
    assert (gate.done, lanes.load) == (1, 0)


async def test_work_that_waits_in_a_lane_where_nothing_moves_is_refused_and_makes_room() -> None:
    lanes, stuck, free = Lanes(width=2, depth=100, total=10, stuck_s=0.05), Gate(), Gate()
    refused: list[int] = []
    for number in range(10):
        assert lanes.submit("stuck", stuck.work(), partial(refused.append, number))
    assert not lanes.submit("free", free.work()), "all room is taken"
    await until(lambda: len(refused) == 8)
    assert (refused, lanes.load) == (list(range(2, 10)), 2)
    assert not lanes.submit("stuck", stuck.work(), lambda: refused.append(10)), "refused at once"
    assert refused[-1] == 10
    free.open.set()
    assert lanes.submit("free", free.work())
    await until(lambda: free.done)
    stuck.open.set()
    await lanes.drain()
    assert lanes.submit("stuck", stuck.work()), "it moves again"
    await lanes.drain()
    assert (stuck.done, lanes.load) == (3, 0)


async def test_a_lane_that_is_slow_but_moves_refuses_nothing() -> None:
    lanes = Lanes(width=1, depth=100, total=100, stuck_s=0.5)
    done: list[int] = []

    async def work() -> None:
        await asyncio.sleep(0.03)
        done.append(1)

    assert all(lanes.submit("slow", work, lambda: done.append(-1)) for _ in range(30))
    await until(lambda: len(done) == 30)
    assert -1 not in done


async def test_a_drain_does_not_wait_for_what_is_stuck() -> None:
    lanes, stuck = Lanes(width=1, depth=1, total=10, stuck_s=0.05), Gate()
    lanes.submit("stuck", stuck.work())
    await lanes.drain()
    assert stuck.done == 0
