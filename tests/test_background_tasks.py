"""Tests of background_tasks: tasks are kept while they run, and their owner can end and await them."""

from __future__ import annotations

import asyncio

from headwater.background_tasks import BackgroundTasks


async def test_a_task_is_forgotten_once_it_has_ended() -> None:
    tasks, go = BackgroundTasks(), asyncio.Event()

    async def work() -> None:
        await go.wait()

    task = tasks.start(work(), "work")
    assert (len(tasks), list(tasks), task.get_name()) == (1, [task], "work")
    go.set()
    await tasks.ended()
    assert (len(tasks), task.done()) == (0, True)


async def test_cancelled_and_failed_tasks_have_ended() -> None:
    tasks = BackgroundTasks()

    async def fail() -> None:
        raise ValueError("it failed")

    failing, waiting = tasks.start(fail()), tasks.start(asyncio.Event().wait())  # type: ignore[arg-type]
    await asyncio.sleep(0)
    tasks.cancel()
    await tasks.ended()
    assert waiting.cancelled()
    assert isinstance(failing.exception(), ValueError)
    assert not tasks


async def test_waiting_ends_after_the_timeout() -> None:
    tasks = BackgroundTasks()
    stuck = tasks.start(asyncio.Event().wait())  # type: ignore[arg-type]
    await tasks.ended(timeout_s=0.01)
    assert not stuck.done()
    tasks.cancel()
    await tasks.ended()
    assert len(tasks) == 0
