"""Delivering consumers take turns, and the event loop handles everything else in between."""

from __future__ import annotations

import asyncio

from headwater.delivery.round_robin import RoundRobin


async def test_a_lone_one_never_waits() -> None:
    turns = RoundRobin()
    for _ in range(3):
        step = turns.next()
        try:
            step.send(None)
        except StopIteration:
            pass
        else:
            raise AssertionError("it had to wait")
        await asyncio.sleep(0)
        await asyncio.sleep(0)


async def test_many_take_turns_and_the_loop_comes_round_between_two() -> None:
    turns, steps, rounds = RoundRobin(), [], 0

    async def worker(name: str) -> None:
        for _ in range(3):
            await turns.next()
            steps.append((name, rounds))

    workers = [asyncio.create_task(worker(name)) for name in "abc"]
    while not all(task.done() for task in workers):
        rounds += 1
        await asyncio.sleep(0)
    assert sorted(name for name, _ in steps[1:4]) == list("abc"), "somebody was passed over"
    assert len({seen for _, seen in steps}) == 9, "two steps in one round"


async def test_a_consumer_that_leaves_the_queue_delays_no_other() -> None:
    turns = RoundRobin()
    await turns.next()
    leaving, staying = asyncio.create_task(turns.next()), asyncio.create_task(turns.next())
    await asyncio.sleep(0)
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await staying
